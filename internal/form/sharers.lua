-- The common part of the scripts about the sharers of a key. On a server, key holds mark while there are sharers.
-- sharers has the time at which each sharer ends, in milliseconds since 1970. slots has the slot of each sharer with a
-- slot. Without key, the contents of both mean nothing. All of it is read and checked before the first write.

-- Returns true if key holds mark, and false if it does not exist. If it holds something else, look returns nil and the
-- reply: -1; -2 if it has no TTL; -3 if it has no TTL and is longer than any token; an error reply if it is of another
-- type and has no TTL.
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

-- Returns when the last sharer ends, and which one that is; 0 if there are none. Returns nil and an error reply if
-- another program keeps data there: a score that is no time, more than the 1024 slots that there are, or a slot that is
-- none of them.
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

-- Removes the sharers whose time is over; all if key did not hold mark.
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

-- Keeps sharers and slots until ends, when the last sharer ends, and a quarter longer, and at least for as long as key.
-- Keeps key for the same time, unless it has more left than ttl. That is the TTL of the sharer that has come: so key
-- does not change with each sharer. Returns whether key has changed.
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
