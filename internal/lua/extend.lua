-- Gives key the TTL ttl (milliseconds) if it holds token.
-- how = 'plant' leaves a TTL that is longer already as it is, and sets a key that is not there to the token; 'exact'
-- shortens a TTL too.
-- 1: done; 2: set anew; 0: no such key; -1: the key holds something else; an error reply where it is not a string.
local key, token, ttl, how = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local held = redis.pcall('GET', key)
if held == token then
  if how == 'exact' or redis.call('PTTL', key) < tonumber(ttl) then
    redis.call('PEXPIRE', key, ttl)
  end
  return 1
elseif type(held) == 'table' then
  return held
elseif held then
  return -1
elseif how == 'plant' then
  local set = redis.pcall('SET', key, token, 'PX', ttl)
  return set.err and set or 2
end
return 0
