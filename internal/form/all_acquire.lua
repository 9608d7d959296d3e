-- Sets all keys to token with the TTL ttl (milliseconds), if none of them exists. With now, every second one of KEYS is
-- the counter of the key before it. Each key then gets a number of its own from fenced_acquire, which stands before
-- this script. The rest of ARGV are then the floors, one for each key. "" means none.
-- Returns:
--   1, or with now the numbers in an array
--   an array of minus the places of the keys that exist, if there are any
--   an error reply if a counter is not a number; nothing is set then
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
      for j = 1, i, 2 do -- these keys are its own, or do not exist: none existed before
        redis.call('DEL', KEYS[j])
      end
      local reason = tostring(number)
      return type(number) == 'table' and number or redis.error_reply(string.match(reason, '^%u+ ') and reason or 'ERR ' .. reason)
    end
    numbers[#numbers + 1] = number
  end
end
return now and numbers or 1
