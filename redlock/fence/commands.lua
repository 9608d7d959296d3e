-- Runs the commands in ARGV, each preceded by the number of its words, and returns their replies.
-- Stops at the first command that fails, and returns its error reply.
local starts, at = {}, 1
while at <= #ARGV do
  starts[#starts + 1] = at
  at = at + ARGV[at] + 1
end
local replies = {}
for i, start in ipairs(starts) do
  local reply = redis.pcall(unpack(ARGV, start + 1, start + ARGV[start]))
  if type(reply) == 'table' and reply.err then
    return {err = string.format('%s (command %d of %d, %s)', reply.err, i, #starts, ARGV[start + 1])}
  end
  replies[i] = reply
end
return replies
