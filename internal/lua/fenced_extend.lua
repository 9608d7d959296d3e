-- Gives KEYS[1] the TTL ARGV[3] (milliseconds) if it holds ARGV[1]|number; the number becomes ARGV[2]. The counter KEYS[2],
-- if it is there, is raised to ARGV[2] and kept for ARGV[5] (milliseconds) beyond the TTL at least.
-- ARGV[4] = 'plant' leaves a TTL that is longer already as it is, and sets a key that is not there, and its counter;
-- 'exact' shortens a TTL too.
-- 1: done; 2: set anew; 0: no such key; -1: the key holds something else; an error reply where one of them is of another type.
local value = ARGV[1] .. '|' .. ARGV[2]
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  return held
elseif not held and ARGV[4] ~= 'plant' then
  return 0
elseif held and held ~= value and string.match(held, '^(.*)|%d+$') ~= ARGV[1] then
  return -1
end
local counter = redis.pcall('GET', KEYS[2])
if type(counter) == 'table' then
  return counter
end
local counted, kept = tonumber(counter), ARGV[3] + ARGV[5]
if counted and counted >= tonumber(ARGV[2]) then
  if redis.call('PTTL', KEYS[2]) < kept then
    redis.call('PEXPIRE', KEYS[2], kept)
  end
elseif counter or not held then
  local number = tonumber(ARGV[2])
  if not counter then
    local time = redis.call('TIME') -- what an acquire would begin with
    number = math.max(number, time[1] * 1000000 + time[2])
  end
  local set = redis.pcall('SET', KEYS[2], string.format('%.0f', number), 'PX', kept)
  if set.err then
    return set
  end
end
local left = held and redis.call('PTTL', KEYS[1]) or 0
if ARGV[4] == 'exact' or left < tonumber(ARGV[3]) then
  left = ARGV[3]
end
if held == value then
  redis.call('PEXPIRE', KEYS[1], left)
  return 1
end
local set = redis.pcall('SET', KEYS[1], value, 'PX', left)
if set.err then
  return set
end
return held and 1 or 2
