-- Takes token out of the sharers of key, and out of slots if there are slots; with slot not from another. The last one deletes key.
-- Otherwise key is kept for no longer than about what the others need, and is changed in any case if there are slots, so that those
-- who wait for one are woken.
-- 1: done; 2: likewise, and key is as it was; 0: not in, or its TTL is over; -1: key holds something else; -2: likewise, without a TTL;
-- -3: likewise, longer than any token; an error reply if one of them is of another type, unless that is key, and it has a TTL (-1).
local key, sharers, slots = KEYS[1], KEYS[2], KEYS[3]
local mark, token, slot = ARGV[1], ARGV[2], tonumber(ARGV[3])
local held = redis.pcall('GETRANGE', key, '0', '1024')
if held ~= mark then
  local left = redis.call('PTTL', key)
  if type(held) == 'table' then
    return left >= 0 and string.find(held.err, 'WRONGTYPE', 1, true) and -1 or held
  elseif left == -1 then
    return #held > 1024 and -3 or -2
  end
  return left == -2 and 0 or -1
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local left, at = redis.call('ZSCORE', sharers, token), slots and tonumber(redis.call('ZSCORE', slots, token) or nil)
if token == '' and redis.call('ZCOUNT', sharers, now, '+inf') == 0 then -- by force: a mark that nobody is in
  return redis.call('DEL', key)
elseif at and slot and at ~= slot then
  return 0
elseif not left then
  if slots then
    redis.call('ZREM', slots, token)
  end
  return 0
end
redis.call('ZREM', sharers, token)
if slots then
  redis.call('ZREM', slots, token)
end
local last = redis.call('ZREVRANGE', sharers, 0, 0, 'WITHSCORES')[2]
local need, kept = last and tonumber(last) - now or -1, redis.call('PTTL', key)
local longer = kept < 0 or kept > 2 * need + 10
if need < 0 then
  redis.call('DEL', key)
elseif longer or slots then
  -- kept may have been read in a later millisecond than now: without need, each release would take one from the others
  local ends = now + (longer and need + math.floor(need / 4) + 2 or math.max(kept, need + 2))
  for i = 1, #KEYS do
    redis.call('PEXPIREAT', KEYS[i], ends)
  end
end
return (tonumber(left) < now or slot and not at) and 0 or (need < 0 or longer or slots) and 1 or 2
