-- Gives token the TTL ttl (milliseconds) among the sharers of key if it is in and has less left; with slots, at slot. Lets it in
-- where it is not, or at another slot, unless somebody else has key or slot. It starts with what a full server permits. key is read last, so
-- that it is tracked from there on if CLIENT CACHING YES went before.
-- 1: done; 2: let in again; 3 and 4: likewise, and key is as it was; -1: somebody else has key or slot; -2: key holds something else, without a
-- TTL; -3: likewise, longer than any token; an error reply if one of them is of another type, unless that is key, and it has a TTL (-1).
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
