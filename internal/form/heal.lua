-- Deletes key if it holds value and has no TTL.
-- Returns:
--   1: deleted
--   0: the key does not exist
--   -1: the key holds something else, or has a TTL
--   an error reply if the key is not a string
local key, value = KEYS[1], ARGV[1]
local held = redis.pcall('GETRANGE', key, '0', '1024')
if type(held) == 'table' then
  return held
end
local left = redis.call('PTTL', key)
if held == value and left == -1 then
  return redis.call('DEL', key)
end
return left == -2 and 0 or -1
