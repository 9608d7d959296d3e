-- Deletes key if it holds value, which is token|number, or the same token with another number. If the key does not hold
-- value itself, the script raises a counter that exists to the number of value: the counter may not have granted
-- anything to the token.
-- Returns:
--   1: deleted
--   0: the key does not exist
--   -1: the key holds something else
--   -2: the key holds something else, and has no TTL
--   -3: the key holds something else, which is longer than any token, and has no TTL
--   an error reply if the key is not a string, and has no TTL
local key, counter, value = KEYS[1], KEYS[2], ARGV[1]
local held = redis.pcall('GETRANGE', key, '0', '1024')
if held == value then
  return redis.call('DEL', key)
end
local token, number = string.match(value, '^(.*)|(%d+)$')
local counted = redis.pcall('GETRANGE', counter, '0', '16')
if type(counted) == 'string' and string.find(counted, '^[1-9]%d*$') and tonumber(counted) < tonumber(number) then
  redis.pcall('INCRBY', counter, string.format('%.0f', number - counted))
end
local left = redis.call('PTTL', key)
if type(held) == 'table' then
  return left >= 0 and string.find(held.err, 'WRONGTYPE', 1, true) and -1 or held
elseif string.match(held, '^(.*)|%d+$') == token then
  return redis.call('DEL', key)
elseif left == -1 then
  return #held > 1024 and -3 or -2
end
return left == -2 and 0 or -1
