-- Reads what key holds and its TTL in milliseconds (-1: none), both in an array. A token is far shorter than 4096 bytes: of
-- somebody's data that is longer, only the beginning goes over the connection.
-- nil: no such key; an error reply if it is not a string.
local key = KEYS[1]
local held = redis.pcall('GET', key)
if type(held) == 'string' then
  return {string.sub(held, 1, 4096), redis.call('PTTL', key)}
end
return held
