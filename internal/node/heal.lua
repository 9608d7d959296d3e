-- Deletes key if it holds value and has no TTL.
-- 1: deleted; 0: no such key; -1: the key holds something else or has a TTL; an error reply if it is not a string.
local key, value = KEYS[1], ARGV[1]
local held = redis.pcall('GET', key)
if type(held) == 'table' then
  return held
elseif not held then
  return 0
elseif held == value and redis.call('PTTL', key) == -1 then
  return redis.call('DEL', key)
end
return -1
