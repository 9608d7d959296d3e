-- Deletes key if it holds token.
-- 1: deleted; 0: no such key; -1: the key holds something else; -2: likewise, without a TTL; -3: likewise, longer than any
-- token; an error reply if it is not a string.
-- All scripts read no more of a key than can be a lock and one byte: of somebody's data, which may have megabytes, GET would
-- have the server make copies. GETRANGE reads nothing of a key that is missing and of one that is empty: PTTL tells them apart.
local key, token = KEYS[1], ARGV[1]
local held = redis.pcall('GETRANGE', key, '0', '1024')
if held == token then
  return redis.call('DEL', key)
elseif type(held) == 'table' then
  return held
elseif #held > 1024 then
  return -3
end
local left = redis.call('PTTL', key)
return left == -2 and 0 or left == -1 and -2 or -1
