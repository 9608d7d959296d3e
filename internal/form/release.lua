-- Deletes key if it holds token.
-- Returns:
--   1: deleted
--   0: the key does not exist
--   -1: the key holds something else
--   -2: the key holds something else, and has no TTL
--   -3: the key holds something else, which is longer than any token, and has no TTL
--   an error reply if the key is not a string, and has no TTL
--
-- All scripts read at most one byte more of a key than a lock can have. Another program's data may have megabytes, of
-- which GET would make the server make copies. GETRANGE returns an empty string for a key that is missing, and for one
-- that is empty. PTTL tells them apart.
local key, token = KEYS[1], ARGV[1]
local held = redis.pcall('GETRANGE', key, '0', '1024')
if held == token then
  return redis.call('DEL', key)
end
local left = redis.call('PTTL', key)
if type(held) == 'table' then
  return left >= 0 and string.find(held.err, 'WRONGTYPE', 1, true) and -1 or held
elseif left == -1 then
  return #held > 1024 and -3 or -2
end
return left == -2 and 0 or -1
