-- Deletes key if it holds token.
-- 1: deleted; 0: no such key; -1: the key holds something else; -2: likewise, without a TTL; -3: likewise, longer than any
-- token; an error reply if it is not a string.
local key, token = KEYS[1], ARGV[1]
local held = redis.pcall('GET', key)
if held == token then
  return redis.call('DEL', key)
elseif type(held) == 'table' then
  return held
elseif not held then
  return 0
elseif #held > 1024 then
  return -3
end
return redis.call('PTTL', key) == -1 and -2 or -1
