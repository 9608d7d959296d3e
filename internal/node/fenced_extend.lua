-- Gives key the TTL ttl (milliseconds) if it holds token|number and has less left or no TTL; the number becomes fence. Sets
-- a key that does not exist, and its counter. The counter is raised to fence and kept for keep (milliseconds) beyond the TTL
-- at least. The key is read last, so that it is tracked from there on if CLIENT CACHING YES went before.
-- 1: done; 2: recreated; -1: the key holds something else; -3: likewise, longer than any token; an error reply if one of them is of another type.
local key, counter, token, fence, ttl, keep = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local value = token .. '|' .. fence
local held = redis.pcall('GET', key)
if type(held) == 'table' then
  return held
elseif held and #held > 1024 then
  return -3
elseif held and held ~= value and string.match(held, '^(.*)|%d+$') ~= token then
  return -1
end
local counted = redis.pcall('GET', counter)
if type(counted) == 'table' then
  return counted
end
local reached, kept = tonumber(counted), ttl + keep
if reached and reached >= tonumber(fence) then
  if redis.call('PTTL', counter) < kept then
    redis.call('PEXPIRE', counter, kept)
  end
elseif counted or not held then
  local number = tonumber(fence)
  if not counted then
    local time = redis.call('TIME') -- what an acquire would begin with
    number = math.max(number, time[1] * 1000000 + time[2])
  end
  local set = redis.pcall('SET', counter, string.format('%.0f', number), 'PX', kept)
  if set.err then
    return set
  end
end
local longer = held and redis.call('PTTL', key) >= tonumber(ttl)
if held == value then
  if not longer then
    redis.call('PEXPIRE', key, ttl)
  end
else
  local set = longer and redis.pcall('SET', key, value, 'KEEPTTL') or redis.pcall('SET', key, value, 'PX', ttl)
  if set.err then
    return set
  end
end
redis.call('PTTL', key)
return held and 1 or 2
