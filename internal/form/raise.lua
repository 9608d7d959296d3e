-- Replaces the number that was granted by number. The key holds granted before, and raised afterwards. The counter is
-- raised to number, unless it is higher. The TTLs stay as they are.
-- Returns:
--   1: done
--   0: the key or the counter does not exist
--   -1: the key holds something else
--   an error reply if one of them is of another type, or if the counter is not a counter
local key, counter, granted, raised, number = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local held = redis.pcall('GETRANGE', key, '0', '1024')
local counted = redis.pcall('GETRANGE', counter, '0', '16')
if type(held) == 'table' then
  return held
end
local left = redis.call('PTTL', key)
if held ~= granted then
  return left == -2 and 0 or -1
elseif type(counted) == 'table' then
  return counted
elseif left <= 0 or counted == '' and redis.call('PTTL', counter) == -2 then
  return 0
end
local reached = string.find(counted, '^[1-9]%d*$') and tonumber(counted)
if not reached or reached >= 9007199254740992 then
  return redis.error_reply("WRONGTYPE the fence counter holds no number from 1 to 2^53-1")
end
if reached < tonumber(number) then
  redis.call('INCRBY', counter, string.format('%.0f', number - reached))
end
redis.call('SET', key, raised, 'KEEPTTL')
return 1
