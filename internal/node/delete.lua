-- Deletes key, whatever string it holds.
-- 1: deleted; 0: no such key; an error reply if it is not a string.
local key = KEYS[1]
local held = redis.pcall('GET', key)
if type(held) == 'table' then
  return held
end
return redis.call('DEL', key)
