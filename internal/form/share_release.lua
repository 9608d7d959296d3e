-- Removes token from the sharers of key, and from slots if there are slots. With slot, it does so only if token has
-- that slot. The last sharer deletes key. Otherwise key is kept for no longer than about the time that the others need.
-- With slots it is changed in any case, which wakes the waiters for a slot. With an empty token the script deletes a
-- mark that has no sharers.
-- Returns:
--   1: done
--   2: done, and key is as it was
--   0: token is no sharer, does not have slot, or its TTL is over
--   -1: key holds something else
--   -2: key holds something else, and has no TTL
--   -3: key holds something else, which is longer than any token, and has no TTL
--   an error reply if one of the keys is of another type, unless that is key, and it has a TTL (-1)
local key, sharers, slots = KEYS[1], KEYS[2], KEYS[3]
local mark, token, slot = ARGV[1], ARGV[2], tonumber(ARGV[3])
local held, refusal = look(key, mark)
if not held then
  return refusal or 0
end
local now = clock()
local ends, who = last(sharers, slots)
if not ends then
  return who
elseif who == token then
  ends = tonumber(redis.call('ZREVRANGE', sharers, 1, 1, 'WITHSCORES')[2] or 0)
end
local left, at = redis.call('ZSCORE', sharers, token), slots and tonumber(redis.call('ZSCORE', slots, token) or nil)
local need, kept = ends - now, redis.call('PTTL', key)
if token == '' and need < 0 then
  return redis.call('DEL', key)
elseif at and slot and at ~= slot then
  return 0
end
if slots then
  redis.call('ZREM', slots, token)
end
if not left then
  return 0
end
redis.call('ZREM', sharers, token)
local longer = kept < 0 or kept > 2 * need + 10
if need < 0 then
  redis.call('DEL', key)
elseif longer or slots then
  -- kept may have been read in a later millisecond than now. Without need, each release would take one from the others.
  ends = now + (longer and need + math.floor(need / 4) + 2 or math.max(kept, need + 2))
  for i = 1, #KEYS do
    redis.call('PEXPIREAT', KEYS[i], ends)
  end
end
return (tonumber(left) < now or slot and not at) and 0 or (need < 0 or longer or slots) and 1 or 2
