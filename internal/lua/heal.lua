-- Deletes KEYS[1] if it holds the value ARGV[1] and has no TTL.
-- 1: deleted; 0: no such key; -1: the key holds something else or has a TTL; an error reply where it is not a string.
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  return held
elseif not held then
  return 0
elseif held == ARGV[1] and redis.call('PTTL', KEYS[1]) == -1 then
  return redis.call('DEL', KEYS[1])
end
return -1
