-- Checks the fence ARGV[1] against the one in KEYS[1]. If it is not lower, stores it there and calls write(), which
-- stands before these lines and sees neither of the two: its KEYS and ARGV begin after them. Returns
--   {1, what write returned}, or the error reply that write returned;
--   {0, the fence in KEYS[1]} if that is higher;
--   {-1, the beginning of KEYS[1]} if that is not a fence, or an error reply if it is not a string;
--   {-2, the milliseconds until KEYS[1] expires} if it does: afterwards every fence would pass.
local guard, fence = table.remove(KEYS, 1), table.remove(ARGV, 1)
-- No more is read than an error shows: of somebody's data, which may have megabytes, GET would have the server make copies.
local seen = redis.pcall('GETRANGE', guard, '0', '63')
if type(seen) == 'table' then
  return seen
end
local ttl = redis.pcall('PTTL', guard)
if type(ttl) == 'table' then
  return ttl
elseif ttl ~= -2 then
  -- Numbers are doubles here, exact below 2^53.
  if not string.find(seen, '^[1-9]%d*$') or tonumber(seen) >= 9007199254740992 then
    return {-1, seen}
  elseif ttl ~= -1 then
    return {-2, ttl}
  elseif tonumber(seen) > tonumber(fence) then
    return {0, seen}
  end
end
if seen ~= fence then
  local set = redis.pcall('SET', guard, fence)
  if set.err then
    return set
  end
end
local result = write()
if type(result) == 'table' and result.err then
  return result
end
return {1, result}
