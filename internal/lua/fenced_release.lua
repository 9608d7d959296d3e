-- Deletes KEYS[1] if it holds ARGV[1], which is token|number, or the same token with another number. The counter KEYS[2], if
-- it is there, is raised to the number of ARGV[1] in any case: it may not have granted anything to the token.
-- 1: deleted; 0: no such key; -1: the key holds something else; an error reply where it is not a string.
local held = redis.pcall('GET', KEYS[1])
if held == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
local token, number = string.match(ARGV[1], '^(.*)|(%d+)$')
local counter = tonumber(redis.pcall('GET', KEYS[2]))
if counter and counter < tonumber(number) then
  redis.pcall('INCRBY', KEYS[2], string.format('%.0f', number - counter))
end
if type(held) == 'table' then
  return held
elseif not held then
  return 0
elseif string.match(held, '^(.*)|%d+$') ~= token then
  return -1
end
return redis.call('DEL', KEYS[1])
