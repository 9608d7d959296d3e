-- Sets all keys, if none of them exists, to token with the TTL ttl (milliseconds). With now every second one of KEYS is the counter of
-- the key before it, and each key gets a number of its own as fenced_acquire grants it, which stands before this script; the rest of
-- ARGV are the floors, one for each key, "" for none.
-- 1, or the numbers in an array; else an array of minus the places of the keys that exist; an error reply, and nothing is set, if a
-- counter is not a number.
local token, ttl, now, keep = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local step, there, numbers = now and 2 or 1, {}, {}
for i = 1, #KEYS, step do
  if redis.call('PTTL', KEYS[i]) ~= -2 then
    there[#there + 1] = -(i + step - 1) / step
  end
end
if #there > 0 then
  return there
end
for i = 1, #KEYS, step do
  if not now then
    redis.call('SET', KEYS[i], token, 'PX', ttl)
  else
    local done, number = pcall(fenced_acquire, KEYS[i], KEYS[i + 1], token, ttl, now, keep, ARGV[4 + (i + 1) / 2], nil, {})
    if not done or type(number) ~= 'number' then
      for j = 1, i, 2 do -- its own, or none: nothing existed before
        redis.call('DEL', KEYS[j])
      end
      local reason = tostring(number)
      return type(number) == 'table' and number or redis.error_reply(string.match(reason, '^%u+ ') and reason or 'ERR ' .. reason)
    end
    numbers[#numbers + 1] = number
  end
end
return now and numbers or 1
