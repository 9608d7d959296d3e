-- Reads the state of key and of its sharers, for one that wants to share key with mark. pass is not empty if entries
-- with limit 0 do not count. TTLs are in milliseconds. The key is read last, so that the server tracks it from there on
-- if CLIENT CACHING YES went before.
-- Returns an array of
--   the value of key, of which 1025 bytes at most; nil if there is none
--   the TTL of key (-1: none)
--   the entry in wanted with the lowest limit, nil if there is none. With token, wanted is not read. With most, data
--   of another program there is no error.
--   the TTL of that entry
--   how many sharers there are
--   the TTL of the sharer that ends first (-1: there is none)
--   the TTL of token (-1: it is no sharer)
--   the slot of token (-1: it has none)
--   with most, from 1 to 256: token, TTL and slot of up to most sharers behind the first skip ones, in the order in
--   which they end
-- Otherwise it returns
--   nil if key does not exist, and no process waits
--   an array of nil and the TTL if key is of another type, and has a TTL
--   an error reply if it has none, or if one of the other keys is of another type
local key, sharers, wanted, slots = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local mark, pass, token, most, skip = ARGV[1], ARGV[2] ~= '', ARGV[3], tonumber(ARGV[4] or 0), tonumber(ARGV[5] or 0)
local now, found, count, first, own, slot = clock(), {}, 0, -1, -1, -1
local limit, entry, over = 0, false, now
if token == '' then
  limit, entry, over = lowest(wanted, mark, pass, now)
  if not limit and most == 0 then
    return entry
  elseif not limit then
    entry, over = false, now
  end
end
local held = redis.pcall('GETRANGE', key, '0', '1024')
local left = redis.call('PTTL', key)
if type(held) == 'table' then
  return left >= 0 and string.find(held.err, 'WRONGTYPE', 1, true) and {false, left} or held
elseif held == mark then
  local ends, foreign = last(sharers, slots)
  if not ends then
    return foreign
  end
  local slotOf = function(of) return slots and tonumber(redis.call('ZSCORE', slots, of) or -1) or -1 end
  local all = redis.call('ZRANGEBYSCORE', sharers, now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  count = redis.call('ZCOUNT', sharers, now, '+inf')
  first = all[2] and all[2] - now or -1
  own = redis.call('ZSCORE', sharers, token) or -1
  if tonumber(own) >= now then
    own, slot = own - now, slotOf(token)
  else
    own = -1
  end
  all = most > 0 and redis.call('ZRANGEBYSCORE', sharers, now, '+inf', 'WITHSCORES', 'LIMIT', skip, most) or {}
  for i = 1, #all, 2 do
    found[#found + 1] = all[i]
    found[#found + 1] = all[i + 1] - now
    found[#found + 1] = slotOf(all[i])
  end
elseif left == -2 and not entry then
  return nil
end
return {left ~= -2 and held, redis.call('PTTL', key), entry, over - now, count, first, own, slot, unpack(found)}
