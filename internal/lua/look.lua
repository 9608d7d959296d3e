-- Tells what key holds and its TTL in milliseconds (-1: none): both in an array.
-- nil: no such key; an error reply where it is not a string.
local key = KEYS[1]
local held = redis.pcall('GET', key)
if type(held) == 'string' then
  return {held, redis.call('PTTL', key)}
end
return held
