-- Replaces the number that was granted by number: in key, which holds granted before and raised afterwards, and in the
-- counter, unless that is higher. The TTLs stay as they are.
-- 1: done; 0: no such key or counter; -1: the key holds something else; an error reply if one of them is of another type.
local key, counter, granted, raised, number = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local held = redis.pcall('GET', key)
local counted = redis.pcall('GET', counter)
if type(held) == 'table' then
  return held
elseif type(counted) == 'table' then
  return counted
elseif held and held ~= granted then
  return -1
end
if redis.call('PTTL', key) <= 0 or not counted then
  return 0
end
if tonumber(counted) < tonumber(number) then
  redis.call('INCRBY', counter, string.format('%.0f', number - counted))
end
redis.call('SET', key, raised, 'KEEPTTL')
return 1
