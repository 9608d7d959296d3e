-- Deletes KEYS[1] if it holds ARGV[1], which is token|number, or the same token with another number. Then the counter
-- KEYS[2], if it is there, is raised to that of ARGV[1].
-- 1: deleted; 0: no such key; -1: the key holds something else; an error reply where it is not a string.
local held = redis.pcall('GET', KEYS[1])
if held == ARGV[1] then
  return redis.call('DEL', KEYS[1])
elseif type(held) == 'table' then
  return held
elseif not held then
  return 0
end
local token, number = string.match(ARGV[1], '^(.*)|(%d+)$')
if string.match(held, '^(.*)|%d+$') ~= token then
  return -1
end
local counter = tonumber(redis.pcall('GET', KEYS[2]))
if counter and counter < tonumber(number) then
  local kept = redis.call('PTTL', KEYS[2])
  redis.pcall('SET', KEYS[2], number, 'PX', math.max(1, kept))
end
return redis.call('DEL', KEYS[1])
