-- Gives key the TTL ttl (milliseconds) if it holds token and has less left, or no TTL. Sets a key that does not exist
-- to token, with that TTL. The key is read last, so that the server tracks it from there on if CLIENT CACHING YES went
-- before.
-- Returns:
--   1: done
--   2: recreated
--   -1: the key holds something else
--   -3: the key holds something else, which is longer than any token
--   an error reply if the key is not a string
local key, token, ttl = KEYS[1], ARGV[1], ARGV[2]
local held = redis.pcall('GETRANGE', key, '0', '1024')
if held == token then
  if redis.call('PTTL', key) < tonumber(ttl) then
    redis.call('PEXPIRE', key, ttl)
    redis.call('PTTL', key)
  end
  return 1
elseif type(held) == 'table' then
  return held
elseif held ~= '' then
  return #held > 1024 and -3 or -1
end
local set = redis.pcall('SET', key, token, 'NX', 'PX', ttl) -- this fails if the key is an empty string
redis.call('PTTL', key)
if not set then
  return -1
end
return set.err and set or 2
