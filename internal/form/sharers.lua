-- What the scripts about those who share a key have in common. On a server key holds mark while there are sharers; sharers has the time at which
-- each of them ends, in milliseconds since 1970, and slots the slot of each, for those with a slot. Without key, what the two hold means
-- nothing. All of it is read and checked before the first write.

-- Whether key holds mark; nil if it holds something else, and what is to be replied then: -1; -2: without a TTL; -3: likewise, longer than any
-- token; an error reply if it is of another type, and has no TTL.
local function look(key, mark)
  local held = redis.pcall('GETRANGE', key, '0', '1024')
  if held == mark then
    return true
  end
  local left = redis.call('PTTL', key)
  if type(held) == 'table' then
    return nil, left >= 0 and string.find(held.err, 'WRONGTYPE', 1, true) and -1 or held
  elseif left == -2 then
    return false
  end
  return nil, left >= 0 and -1 or #held > 1024 and -3 or -2
end

-- The server's time in milliseconds since 1970.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- When the last of those ends who are in, and who that is; 0 if nobody is. nil, and an error reply, if somebody else keeps data there: what is
-- no time, more than the 1024 slots that there are, or none of them.
local function last(sharers, slots)
  local all = redis.call('ZREVRANGE', sharers, 0, 0, 'WITHSCORES')
  local ends = tonumber(all[2] or 0)
  local ours = ends < 9007199254740992
  if ours and slots then
    local taken = redis.call('ZCARD', slots)
    ours = taken <= 1024 and taken == redis.call('ZCOUNT', slots, 0, 1023) and redis.call('ZCARD', sharers) <= 1024
  end
  if not ours then
    return nil, redis.error_reply('WRONGTYPE data of another program beside the key of a lock')
  end
  return ends, all[1]
end

-- Takes out those whose time is over; all if key did not hold mark.
local function purge(held, now, sharers, slots)
  local before = held and '(' .. now or '+inf'
  if slots then
    local gone = redis.call('ZRANGEBYSCORE', sharers, '-inf', before)
    if not held then
      redis.call('ZREMRANGEBYSCORE', slots, '-inf', '+inf')
    elseif #gone > 0 then
      redis.call('ZREM', slots, unpack(gone))
    end
  end
  redis.call('ZREMRANGEBYSCORE', sharers, '-inf', before)
end

-- Has sharers and slots stay until ends, when the last one ends, and a quarter longer, and for as long as key; and key likewise, unless it has
-- more left than ttl, that of the one who has come, so that it does not change with each. Whether it has changed.
local function keep(now, ttl, ends, key, sharers, slots)
  local left, need = redis.call('PTTL', key), ends - now
  ends = now + math.max(left, need + math.floor(need / 4) + 2)
  redis.call('PEXPIREAT', sharers, ends)
  if slots then
    redis.call('PEXPIREAT', slots, ends)
  end
  if left > ttl + 1 then
    return false
  end
  redis.call('PEXPIREAT', key, ends)
  return true
end
