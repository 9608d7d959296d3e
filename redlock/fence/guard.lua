-- Calls write(), which stands before these lines, if KEYS[1] holds no higher token than ARGV[1], which it holds then.
-- write sees neither of the two: its KEYS and ARGV begin behind them.
-- {1, what write returned}: done, or an error reply of write; {0, the token seen}: it is higher;
-- {-1, what KEYS[1] holds}: it is no token; an error reply where it is not a string.
local guard, token = table.remove(KEYS, 1), table.remove(ARGV, 1)
local seen = redis.pcall('GET', guard)
if type(seen) == 'table' then
  return seen
elseif seen then
  -- Numbers are doubles here, exact below 2^53.
  if not string.find(seen, '^[1-9]%d*$') or tonumber(seen) >= 9007199254740992 then
    return {-1, seen}
  elseif tonumber(seen) > tonumber(token) then
    return {0, seen}
  end
end
if seen ~= token then
  local set = redis.pcall('SET', guard, token)
  if set.err then
    return set
  end
end
local result = write()
if type(result) == 'table' and result.err then
  return result
end
return {1, result}
