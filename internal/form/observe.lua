-- Reads what key holds and its TTL in milliseconds (-1: none), both in an array. A token has at most 1024 bytes: of
-- somebody's data that is longer, only the first 1025 are read. Of data of another type that has a TTL, only that is told, behind nil.
-- nil: no such key; an error reply if it is not a string, and has no TTL. With an argument a replica answers with an error, too: what it
-- holds is that of another node. It is not noticed if the user may not use INFO.
local key = KEYS[1]
if ARGV[1] then
  local info = redis.pcall('INFO', 'replication')
  local role = type(info) == 'string' and string.match(info, 'role:(%S+)')
  if role and role ~= 'master' then
    return redis.error_reply('READONLY role:' .. role)
  end
end
local held = redis.pcall('GETRANGE', key, '0', '1024')
local left = redis.call('PTTL', key)
if type(held) == 'table' then
  return left >= 0 and string.find(held.err, 'WRONGTYPE', 1, true) and {false, left} or held
end
return left ~= -2 and {held, left} or nil
