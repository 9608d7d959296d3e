-- Reads the value of key and its TTL. A token has at most 1024 bytes: of a longer value the script reads only the first
-- 1025. With an argument a replica answers with an error, because it holds the data of another node. The script does
-- not notice a replica if the user may not use INFO.
-- Returns:
--   an array of the value and the TTL in milliseconds (-1: none)
--   an array of nil and the TTL if the key is not a string, and has a TTL
--   nil if the key does not exist
--   an error reply if the key is not a string, and has no TTL
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
