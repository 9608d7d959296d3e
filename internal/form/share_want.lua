-- Says that a process waits: adds entry to wanted for ttl milliseconds, and removes the entries that have ended, or
-- that end more than 10 s ahead. An entry ends by itself, so wanted without a TTL would only cost memory. Even so,
-- nothing is added if the TTL cannot be set. The first write is one that a server refuses if it is out of memory.
-- Returns:
--   1: done
--   an error reply if wanted has data of another program
local wanted, entry, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])
local now = clock()
local limit, reason = lowest(wanted, '', false, now)
if not limit then
  return reason
end
redis.call('ZADD', wanted, now + ttl, entry)
local set = redis.pcall('PEXPIRE', wanted, ttl)
if type(set) == 'table' then
  redis.call('ZREM', wanted, entry)
  return set
end
redis.call('ZREMRANGEBYSCORE', wanted, '-inf', '(' .. now)
redis.call('ZREMRANGEBYSCORE', wanted, '(' .. (now + 10000), '+inf')
return 1
