-- Adds token to the sharers of key for ttl milliseconds, unless key holds anything but mark, or the limit of a
-- waiting process (wanted) is reached. pass is not empty if entries with limit 0 do not count. With slots,
-- each sharer has a slot of its own, below limit. It is the first free one from start on, and then from 0 on. While
-- there are sharers key holds mark, at least until the last of them ends. Without key, the contents of sharers and
-- slots mean nothing. A sharer that could not be extended and released is not added. The commands that this needs are
-- carried out before anything is set, in a way that changes nothing. The first write has to be one that a server
-- refuses if it is out of memory, because it checks no other.
-- Returns:
--   1 + 2 * the slot (1 without slots), and one more if key was changed
--   0: another process waits that has to come first
--   -1: key holds something else, or token is a sharer already
--   -2: key holds something else, and has no TTL
--   -3: key holds something else, which is longer than any token, and has no TTL
--   -4: all slots are taken
--   an error reply if one of the keys is of another type, unless that is key, and it has a TTL (-1)
local key, sharers, wanted, slots = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local mark, pass, token, ttl = ARGV[1], ARGV[2] ~= '', ARGV[3], tonumber(ARGV[4])
local limit, start = tonumber(ARGV[5]), tonumber(ARGV[6])
local held, refusal = look(key, mark)
if held == nil then
  return refusal
end
local now = clock()
local most, reason = lowest(wanted, mark, pass, now)
if not most then
  return reason
elseif most == 0 then
  return 0
end
local ends, foreign = last(sharers, slots)
if not ends then
  return foreign
elseif redis.call('ZSCORE', sharers, token) then
  return -1
end
local inside = slots and held and redis.call('ZCOUNT', sharers, now, '+inf') or 0
if slots and inside >= math.min(limit, most) then
  return inside >= limit and -4 or 0
end
redis.call('ZADD', sharers, 'XX', now + ttl, token)
redis.call('ZREM', sharers, token)
purge(held, now, sharers, slots)
if not held or ends < now then -- nobody is in, and sharers does not exist
  redis.call('PTTL', key)
  redis.call('PEXPIREAT', sharers, now)
  redis.call('DEL', sharers)
end
local slot = 0
if slots then
  if redis.call('ZCARD', slots) ~= redis.call('ZCARD', sharers) then
    return -4
  end
  local from, to = start, limit - 1
  if redis.call('ZCOUNT', slots, from, to) == limit - start then
    from, to = 0, start - 1
  end
  slot = from
  if redis.call('ZCOUNT', slots, from, from) == 1 then -- finds the first free one, by halving
    while slot < to do
      local middle = math.floor((slot + to) / 2)
      if redis.call('ZCOUNT', slots, from, middle) > middle - from then
        slot = middle + 1
      else
        to = middle
      end
    end
  end
end
if not held then
  redis.call('SET', key, mark, 'PX', ttl)
  ends = 0
end
redis.call('ZADD', sharers, now + ttl, token)
if slots then
  redis.call('ZADD', slots, slot, token)
end
local changed = keep(now, ttl, math.max(ends, now + ttl), key, sharers, slots)
return 2 * slot + ((changed or not held) and 2 or 1)
