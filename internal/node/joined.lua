-- Carries out several of fenced_acquire and fenced_release, in order. ARGV[1] has a character for each: r for a release; s for
-- an acquire whose ttl and now are ARGV[2] and ARGV[3]; else a digit, how many arguments an acquire has. KEYS holds the two keys
-- of each, the rest of ARGV the arguments.
-- An array of the results, each as by itself or its error. A server that is out of memory refuses only the first acquire if
-- a release follows: the refusal is then that of all acquires.
local forms, ttl, now, replies, a, full = ARGV[1], ARGV[2], tonumber(ARGV[3]), {}, 4, nil
local r, s = string.byte('rs', 1, 2)
for i = 1, #forms do
  local key, counter, form, args = KEYS[2 * i - 1], KEYS[2 * i], string.byte(forms, i), 1
  local done, reply
  if form == r then
    done, reply = pcall(fenced_release, key, counter, ARGV[a])
  else
    local life, time, keep, floor = ttl, now, nil, nil
    if form ~= s then
      args = form - string.byte('0')
      life, time = ARGV[a + 1], ARGV[a + 2]
      keep, floor = args > 3 and ARGV[a + 3] or nil, args > 4 and ARGV[a + 4] or nil
    end
    done, reply = true, full
    if not full then
      done, reply = pcall(fenced_acquire, key, counter, ARGV[a], life, time, keep, floor)
    end
  end
  if not done and type(reply) ~= 'table' then
    reply = redis.error_reply(string.match(reply, '^%u+ ') and reply or 'ERR ' .. reply)
  end
  if type(reply) == 'table' and string.find(': ' .. reply.err, ': %-?OOM ') then
    full = reply
  end
  replies[i] = reply or false
  a = a + args
end
return replies
