-- Deletes KEYS[1], whatever string it holds.
-- 1: deleted; 0: no such key; an error reply where it is not a string.
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  return held
end
return redis.call('DEL', KEYS[1])
