-- Reads what key holds and its TTL in milliseconds (-1: none), both in an array. A token has at most 1024 bytes: of
-- somebody's data that is longer, only the first 1025 go over the connection.
-- nil: no such key; an error reply if it is not a string.
local key = KEYS[1]
local held = redis.pcall('GET', key)
if type(held) == 'string' then
  return {string.sub(held, 1, 1025), redis.call('PTTL', key)}
end
return held
