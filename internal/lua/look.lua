-- Tells what KEYS[1] holds and its TTL in milliseconds (-1: none): both in an array.
-- nil: no such key; an error reply where it is not a string.
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'string' then
  return {held, redis.call('PTTL', KEYS[1])}
end
return held
