-- Gives token the TTL ttl (milliseconds) among the sharers of key if it is in and has less left; with slots, at slot. Lets it in
-- where it is not, or at another slot, unless somebody else has key or slot. key is read last, so that it is tracked from there on
-- if CLIENT CACHING YES went before.
-- 1: done; 2: let in anew; 3 and 4: likewise, and key is as it was; -1: somebody else has key or slot; -3: key holds something else, longer than any token; an error reply if
-- one of them is of another type.
local key, sharers, slots = KEYS[1], KEYS[2], KEYS[3]
local mark, token, ttl, slot = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local held = redis.pcall('GETRANGE', key, '0', '1024')
if type(held) == 'table' then
  return held
elseif held ~= mark and (held ~= '' or redis.call('PTTL', key) ~= -2) then
  return #held > 1024 and -3 or -1
end
held = held == mark
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local before = held and '(' .. now or '+inf'
if slots then
  local gone = held and redis.call('ZRANGEBYSCORE', sharers, '-inf', before) or redis.call('ZRANGE', slots, 0, -1)
  if #gone > 0 then
    redis.call('ZREM', slots, unpack(gone))
  end
end
redis.call('ZREMRANGEBYSCORE', sharers, '-inf', before)
local left = redis.call('ZSCORE', sharers, token)
local at = not slots or tonumber(redis.call('ZSCORE', slots, token)) == slot
local here = left and at
if not at then
  if redis.call('ZCOUNT', slots, slot, slot) > 0 then
    return -1
  end
  redis.call('ZADD', slots, slot, token)
end
if not left or tonumber(left) < now + ttl then
  redis.call('ZADD', sharers, now + ttl, token)
end
if not held then
  redis.call('SET', key, mark)
end
local changed = not held
local function short(k) return k and redis.call('PTTL', k) <= ttl + 1 end -- or none: a zset is new, or somebody has persisted key
if short(key) or short(sharers) or short(slots) then -- a quarter more, so that key does not change with each of them
  local need = redis.call('ZREVRANGE', sharers, 0, 0, 'WITHSCORES')[2] - now
  local ends = now + need + math.floor(need / 4) + 2
  changed = true
  for i = 1, #KEYS do
    redis.call('PEXPIREAT', KEYS[i], ends)
  end
  redis.call('PTTL', key)
end
return (here and 1 or 2) + (changed and 0 or 2)
