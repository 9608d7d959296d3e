-- Gives KEYS[1] the TTL ARGV[2] (milliseconds) if it holds the token ARGV[1].
-- ARGV[3] = 'plant' leaves a TTL that is longer already as it is, and sets a key that is not there to the token; 'exact'
-- shortens a TTL too.
-- 1: done; 2: set anew; 0: no such key; -1: the key holds something else; an error reply where it is not a string.
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
elseif ARGV[3] == 'plant' then
  local set = redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return set.err and set or 2
end
return 0
