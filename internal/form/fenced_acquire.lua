-- Sets key to token|number with the TTL ttl (milliseconds), if it does not exist. The number is the last one of the
-- next block of the counter. A block has block numbers, by default 1.
--
-- A counter that is missing, or more than a second behind now, advances. now is the caller's estimate of the time, in
-- microseconds since 1970. The counter advances to now if the server's clock is within a second of now, otherwise to
-- that clock. It also advances if floor is given, and then to floor at least. "" means that there is no floor. The
-- block comes on top of that.
--
-- A counter that advances is kept for keep (milliseconds, by default two hours) beyond the TTL. So is a counter from
-- which a block is taken. With blocks a counter may keep pace with the clock, and does not advance for as long as that
-- goes on.
--
-- The key is set before the counter. So if the key exists, there is nothing to take back of another program's counter.
--
-- The acquires of a joined script with one ttl and one now share begun: the number with which a missing counter began.
-- The script expects the next counter to be missing, too, so that it begins with a single write.
--
-- Returns:
--   the number
--   nil if the key exists
--   an error reply if the counter is another program's data: anything but a number from 1 to 2^53 - 1 without leading
--   zeros
local key, counter, token, ttl, now, keep, floor, block, begun = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], {}
local call, pcall, text = redis.call, redis.pcall, begun.text
if text and call('SET', counter, text, 'NX', 'PX', begun.kept) then
  if call('SET', key, token .. '|' .. text, 'NX', 'PX', ttl) then
    return begun.number
  end
  call('DEL', counter)
  return nil
end
begun.text = nil
local size = tonumber(block or 1)
if size > 4096 then
  return redis.error_reply('ERR a block of more than 4096 numbers')
end
local counted = pcall('GETRANGE', counter, '0', '16')
if type(counted) == 'table' then
  return counted
end
local foreign = "WRONGTYPE the fence counter holds no number from 1 to 2^53-1"
local reached = counted == '' and 0 or string.find(counted, '^[1-9]%d*$') and tonumber(counted)
if not reached or reached >= 9007199254740992 then
  return redis.error_reply(foreign)
end
local number, none = reached + size, floor == nil or floor == ''
local forward = not none or number <= now - 1000000
if forward then
  local time = call('TIME')
  local begin = time[1] * 1000000 + time[2]
  if math.abs(now - begin) <= 1000000 then
    begin = tonumber(now)
  end
  number = math.max(number, begin + size, (none and 0 or floor) + size)
end
if number >= 9007199254740992 then
  return redis.error_reply('ERR the fence counter has no numbers left below 2^53')
end
text = string.format('%.0f', number)
local set = pcall('SET', key, token .. '|' .. text, 'NX', 'PX', ttl)
if not set or set.err then
  return set or nil
end
local missing = counted == ''
local kept = (missing or forward or block) and string.format('%.0f', ttl + (keep or 7200000))
if missing then
  set = pcall('SET', counter, text, 'NX', 'PX', kept) -- this fails if the counter is an empty string
elseif forward then
  set = pcall('SET', counter, text, 'PX', kept)
else
  set = pcall('INCRBY', counter, block or '1')
end
if not set or type(set) == 'table' and set.err then
  call('DEL', key)
  return set or redis.error_reply(foreign)
elseif missing then
  begun.text, begun.number, begun.kept = text, number, kept
elseif block and not forward then
  call('PEXPIRE', counter, kept)
end
return number
