-- Sets KEYS[1], if it is not there, to ARGV[1]|number with the TTL ARGV[2] (milliseconds). The number is the next of the
-- counter KEYS[2]. Where that lies more than a second behind ARGV[3], the time by the caller's reckoning (microseconds since
-- 1970), or is missing, it goes forward: to ARGV[3], if the server's clock is within a second of it, else to that clock. So it
-- does where ARGV[5] is given, and beyond that. It is kept then for ARGV[4] (milliseconds; by default a day) beyond the TTL.
-- The number; nil: the key is there; an error reply where the counter is none.
local counted = redis.pcall('INCR', KEYS[2])
if type(counted) == 'table' then
  return counted
end
local number, text = counted, nil
local forward = ARGV[5] or number <= ARGV[3] - 1000000
if forward then
  local time = redis.call('TIME')
  local begin = time[1] * 1000000 + time[2]
  if math.abs(ARGV[3] - begin) <= 1000000 then
    begin = tonumber(ARGV[3])
  end
  number = math.max(number, begin + 1, (ARGV[5] or 0) + 1)
  text = string.format('%.0f', number)
else
  text = redis.call('GET', KEYS[2])
end
if number >= 9007199254740992 then
  redis.call(counted == 1 and 'DEL' or 'DECR', KEYS[2])
  return redis.error_reply('ERR the fence counter has no numbers left below 2^53')
end
if redis.call('SET', KEYS[1], ARGV[1] .. '|' .. text, 'NX', 'PX', ARGV[2]) then
  if forward then
    redis.call('SET', KEYS[2], text, 'PX', ARGV[2] + (ARGV[4] or 86400000))
  end
  return number
end
redis.call(counted == 1 and 'DEL' or 'DECR', KEYS[2])
return nil
