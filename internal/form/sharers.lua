-- The common part of the scripts about the sharers of a key. On a server, key holds mark while there are sharers.
-- sharers has the time at which each sharer ends, in milliseconds since 1970. slots has the slot of each sharer with a
-- slot. Without key, the contents of both mean nothing. wanted has an entry of each process that waits for key. All of
-- it is read and checked before the first write.

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

-- The error reply if another program keeps data beside the key.
local function others()
  return redis.error_reply('WRONGTYPE data of another program beside the key of a lock')
end

-- Returns the lowest limit on how many share key that a process has said, with its entry, and when that ends. Without
-- an entry the limit is math.huge. An entry is limit|process, and then the mark of the kind that the process waits for,
-- if it has one. An entry with limit 0 does not bind those that share key with mark if it is of the same kind, or with
-- pass. An entry ends at its score. One that ends more than 10 s ahead is of a clock that was set back, and binds
-- nobody. More than 1024 entries count as limit 0. Returns nil and an error reply if another program keeps data there,
-- or if the user may not read it.
local function lowest(wanted, mark, pass, now)
  local all = redis.pcall('ZRANGEBYSCORE', wanted, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1025)
  if all.err then
    return nil, all
  end
  local limit, entry, ends = math.huge, false, now
  for i = 1, #all, 2 do
    local n, kind = string.match(all[i], '^(%d+)|[^|]+(.*)$')
    local at = tonumber(all[i + 1])
    n = tonumber(n)
    if not n then
      return nil, others()
    elseif at >= now and at <= now + 10000 and n < limit and (n > 0 or kind ~= mark and not pass) then
      limit, entry, ends = n, all[i], at
    end
  end
  if #all > 2048 then
    return 0, all[1], now + 1000
  end
  return limit, entry, ends
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
    return nil, others()
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
