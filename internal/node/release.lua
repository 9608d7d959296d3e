-- Deletes key if it holds token.
-- 1: deleted; 0: no such key; -1: the key holds something else; an error reply if it is not a string.
local key, token = KEYS[1], ARGV[1]
local held = redis.pcall('GET', key)
if held == token then
  return redis.call('DEL', key)
elseif type(held) == 'table' then
  return held
elseif held then
  return -1
end
return 0
