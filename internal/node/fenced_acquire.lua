-- Sets key, if it does not exist, to token|number with the TTL ttl (milliseconds). The number is the next of the counter.
-- A counter that is missing, or more than a second behind now (the caller's estimate of the time, microseconds since 1970),
-- advances: to now, if the server's clock is within a second of it, else to that clock. It also advances if floor is given,
-- and beyond floor. A counter that advances is kept for keep (milliseconds; by default a day) beyond the TTL.
-- The number; nil: the key exists; an error reply if the counter is not a number.
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
