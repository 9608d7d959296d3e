-- Puts the number ARGV[3] in the place of the one that was granted: for KEYS[1], which holds ARGV[2] in the place of
-- ARGV[1] then, and for the counter KEYS[2], unless that is higher. The TTLs stay as they are.
-- 1: done; 0: no such key or counter; -1: the key holds something else; an error reply where one of them is of another type.
local held = redis.pcall('GET', KEYS[1])
local counter = redis.pcall('GET', KEYS[2])
if type(held) == 'table' then
  return held
elseif type(counter) == 'table' then
  return counter
elseif held and held ~= ARGV[1] then
  return -1
end
local left = redis.call('PTTL', KEYS[1])
if left <= 0 or not counter then
  return 0
end
if tonumber(counter) < tonumber(ARGV[3]) then
  redis.call('INCRBY', KEYS[2], string.format('%.0f', ARGV[3] - counter))
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', left)
return 1
