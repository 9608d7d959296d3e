-- Lets token in among the sharers of key for ttl milliseconds, unless key holds anything but mark, or a writer waits (wanted). With
-- slots each sharer has a slot below limit of its own: the first free one from start on, round the end. While there are sharers
-- key holds mark, for as long as the last of them at least. Without key, what sharers and slots hold means nothing.
-- 1 + 2 * the slot (1 without slots), and one more if key was changed; 0: a writer waits; -1: key holds something else, or token is in;
-- -4: all slots are taken; an error reply if one of them is of another type, unless that is key, and it has a TTL (-1).
local key, sharers, wanted, slots = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local mark, token, ttl, limit, start = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local held = redis.pcall('GETRANGE', key, '0', '1024')
if type(held) == 'table' then
  return redis.call('PTTL', key) >= 0 and string.find(held.err, 'WRONGTYPE', 1, true) and -1 or held
elseif held ~= mark and (held ~= '' or redis.call('PTTL', key) ~= -2) then
  return -1
end
held = held == mark
local asked = redis.call('PTTL', wanted) -- a writer's is 3 s at most: more, or none, is somebody else's
if asked >= 0 and asked <= 3000 then
  return 0
end
local time = redis.call('TIME')
local now, slot = time[1] * 1000 + math.floor(time[2] / 1000), 0
local before = held and '(' .. now or '+inf'
if slots then
  local gone = held and redis.call('ZRANGEBYSCORE', sharers, '-inf', before) or redis.call('ZRANGE', slots, 0, -1)
  if #gone > 0 then
    redis.call('ZREM', slots, unpack(gone))
  end
end
redis.call('ZREMRANGEBYSCORE', sharers, '-inf', before)
if slots then
  local taken = redis.call('ZCARD', slots)
  if taken >= limit or taken ~= redis.call('ZCARD', sharers) then
    return -4
  end
  local from, last = start, limit - 1
  if redis.call('ZCOUNT', slots, from, last) == limit - start then
    from, last = 0, start - 1
  end
  slot = from
  if redis.call('ZCOUNT', slots, from, from) == 1 then -- the first free one, by halving
    while slot < last do
      local middle = math.floor((slot + last) / 2)
      if redis.call('ZCOUNT', slots, from, middle) > middle - from then
        slot = middle + 1
      else
        last = middle
      end
    end
  end
end
if redis.call('ZADD', sharers, 'NX', now + ttl, token) == 0 then
  return -1
end
if slots then
  redis.call('ZADD', slots, slot, token)
end
if not held then
  redis.call('SET', key, mark)
end
local function short(k) return k and redis.call('PTTL', k) <= ttl + 1 end -- or none: a zset is new, or somebody has persisted key
local changed = short(key)
if changed or short(sharers) or short(slots) then -- a quarter more, so that key does not change with each of them
  local need = redis.call('ZREVRANGE', sharers, 0, 0, 'WITHSCORES')[2] - now
  local ends = now + need + math.floor(need / 4) + 2
  changed = true
  redis.call('PEXPIREAT', key, ends)
  redis.call('PEXPIREAT', sharers, ends)
  if slots then
    redis.call('PEXPIREAT', slots, ends)
  end
end
return 2 * slot + (changed and 2 or 1)
