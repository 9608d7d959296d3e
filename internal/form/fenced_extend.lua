-- Gives key the TTL ttl (milliseconds) if it holds token with any number, and has less left, or no TTL. The number
-- becomes fence. Sets a key that does not exist, and its counter. The counter is raised to fence, and kept for keep
-- (milliseconds) beyond the TTL, at least. The key is read last, so that the server tracks it from there on if CLIENT
-- CACHING YES went before.
--
-- If the counter is another program's data, the script leaves it alone. It then extends a key that exists as if there
-- were no counter: the key is held here without one, and the server refuses acquires. It does not set a key that does
-- not exist.
--
-- Returns:
--   1: done
--   2: recreated
--   -1: the key holds something else
--   -3: the key holds something else, which is longer than any token
--   -4: the key does not exist, and the counter is another program's data
--   an error reply if the key is of another type
local key, counter, token, fence, ttl, keep = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local value = token .. '|' .. fence
local held = redis.pcall('GETRANGE', key, '0', '1024')
if type(held) == 'table' then
  return held
elseif #held > 1024 then
  return -3
elseif held ~= value and string.match(held, '^(.*)|%d+$') ~= token and (held ~= '' or redis.call('PTTL', key) ~= -2) then
  return -1
end
local missing = held == ''
local counted = redis.pcall('GETRANGE', counter, '0', '16')
if type(counted) == 'table' then
  if not string.find(counted.err, 'WRONGTYPE', 1, true) then
    return counted
  end
  counted = 'of another type'
end
local reached, kept, set = string.find(counted, '^[1-9]%d*$') and tonumber(counted), ttl + keep, {}
if reached and reached < 9007199254740992 then
  if reached < tonumber(fence) then
    set = redis.pcall('SET', counter, fence, 'PX', kept)
  elseif redis.call('PTTL', counter) < kept then
    redis.call('PEXPIRE', counter, kept)
  end
elseif missing and counted == '' then
  local time = redis.call('TIME') -- an acquire would begin with this
  local begin = math.max(tonumber(fence), time[1] * 1000000 + time[2])
  -- This fails if the counter is an empty string.
  set = redis.pcall('SET', counter, string.format('%.0f', begin), 'NX', 'PX', kept)
elseif missing then
  set = nil
end
if not set then
  redis.call('PTTL', key)
  return -4
elseif set.err then
  return set
end
local longer = not missing and redis.call('PTTL', key) >= tonumber(ttl)
if held == value then
  if not longer then
    redis.call('PEXPIRE', key, ttl)
  end
else
  set = longer and redis.pcall('SET', key, value, 'KEEPTTL') or redis.pcall('SET', key, value, 'PX', ttl)
  if set.err then
    return set
  end
end
redis.call('PTTL', key)
return missing and 2 or 1
