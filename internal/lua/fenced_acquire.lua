-- Sets key, if it is not there, to token|number with the TTL ttl (milliseconds). The number is the next of the counter.
-- Where that lies more than a second behind now, the time by the caller's reckoning (microseconds since 1970), or is
-- missing, it goes forward: to now, if the server's clock is within a second of it, else to that clock. So it does where
-- floor is given, and beyond that. It is kept then for keep (milliseconds; by default a day) beyond the TTL.
-- The number; nil: the key is there; an error reply where the counter is none.
local key, counter, token, ttl, now, keep, floor = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local counted = redis.pcall('INCR', counter)
if type(counted) == 'table' then
  return counted
end
local number, text = counted, nil
local forward = floor or number <= now - 1000000
if forward then
  local time = redis.call('TIME')
  local begin = time[1] * 1000000 + time[2]
  if math.abs(now - begin) <= 1000000 then
    begin = tonumber(now)
  end
  number = math.max(number, begin + 1, (floor or 0) + 1)
  text = string.format('%.0f', number)
else
  text = redis.call('GET', counter)
end
if number >= 9007199254740992 then
  redis.call(counted == 1 and 'DEL' or 'DECR', counter)
  return redis.error_reply('ERR the fence counter has no numbers left below 2^53')
end
if redis.call('SET', key, token .. '|' .. text, 'NX', 'PX', ttl) then
  if forward then
    redis.call('SET', counter, text, 'PX', ttl + (keep or 86400000))
  end
  return number
end
redis.call(counted == 1 and 'DEL' or 'DECR', counter)
return nil
