-- Deletes key if it holds token.
-- 1: deleted; 0: no such key; -1: the key holds something else; -2: likewise, without a TTL; -3: likewise, longer than any
-- token; an error reply if it is not a string, and has no TTL.
-- All scripts read no more of a key than can be a lock and one byte: of somebody's data, which may have megabytes, GET would
-- have the server make copies. GETRANGE reads nothing of a key that is missing and of one that is empty: PTTL tells them apart.
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
