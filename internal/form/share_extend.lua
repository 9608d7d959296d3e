-- Gives token the TTL ttl (milliseconds) among the sharers of key, if it is one and has less left. With slots, it must
-- have slot. If token is no sharer, or has another slot, it is added, unless another holder has key or slot. The first
-- write is one that a server permits even if it is out of memory. New companion keys get their TTL after their first
-- member, so the commands for that are carried out before, in a way that changes nothing. The key is read last, so that
-- the server tracks it from there on if CLIENT CACHING YES went before.
-- Returns:
--   1: done
--   2: added again
--   3 and 4: as 1 and 2, and key is as it was
--   -1: another holder has key or slot
--   -2: key holds something else, and has no TTL
--   -3: key holds something else, which is longer than any token, and has no TTL
--   an error reply if one of the keys is of another type, unless that is key, and it has a TTL (-1)
local key, sharers, slots = KEYS[1], KEYS[2], KEYS[3]
local mark, token, ttl, slot = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local held, refusal = look(key, mark)
if held == nil then
  return refusal
end
local now = clock()
local ends, foreign = last(sharers, slots)
if not ends then
  return foreign
end
purge(held, now, sharers, slots)
local left = redis.call('ZSCORE', sharers, token)
local at = not slots or tonumber(redis.call('ZSCORE', slots, token)) == slot
local here = left and at
if not at and redis.call('ZCOUNT', slots, slot, slot) > 0 then
  return -1
end
if not held or ends < now then -- nobody is in, and sharers does not exist
  redis.call('PTTL', key)
  redis.call('PEXPIREAT', sharers, now)
end
if not held then
  redis.call('SET', key, mark, 'PX', ttl)
  ends = 0
end
if not at then
  redis.call('ZADD', slots, slot, token)
end
if not left or tonumber(left) < now + ttl then
  redis.call('ZADD', sharers, now + ttl, token)
end
local changed = keep(now, ttl, math.max(ends, now + ttl), key, sharers, slots)
redis.call('PTTL', key)
return (here and 1 or 2) + ((changed or not held) and 0 or 2)
