-- Deletes KEYS[1] if it holds the token ARGV[1].
-- 1: deleted; 0: no such key; -1: the key holds something else; an error reply where it is not a string.
local held = redis.pcall('GET', KEYS[1])
if held == ARGV[1] then
  return redis.call('DEL', KEYS[1])
elseif type(held) == 'table' then
  return held
elseif held then
  return -1
end
return 0
