-- Gives KEYS[1] the TTL ARGV[2] (milliseconds) if it holds the token ARGV[1].
-- ARGV[3] = 'longer' leaves a TTL that is longer already as it is; 'exact' shortens it too.
-- 1: done; 0: no such key; -1: the key holds something else; an error reply where it is not a string.
local held = redis.pcall('GET', KEYS[1])
if held == ARGV[1] then
  if ARGV[3] == 'exact' or redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return 1
elseif type(held) == 'table' then
  return held
elseif held then
  return -1
end
return 0
