-- Carries out several calls of fenced_acquire and fenced_release, in order. ARGV[1] has a character for each call: r
-- for a release, and s for an acquire whose ttl and now are ARGV[2] and ARGV[3]. Any other acquire has a digit, which
-- says how many arguments it has. KEYS holds the two keys of each call, and the rest of ARGV the arguments. Returns an
-- array of the results. Each is the result that the call has by itself, or its error. A server that is out of memory
-- refuses the first acquire, but accepts acquires behind a release. The script answers these with the same refusal.
local forms, ttl, now, replies, a, full, begun = ARGV[1], ARGV[2], tonumber(ARGV[3]), {}, 4, nil, {}
local r, s, zero = string.byte('rs0', 1, 3)
local keys, args, pcall, type, byte = KEYS, ARGV, pcall, type, string.byte
for i = 1, #forms do
  local key, counter, form, n = keys[2 * i - 1], keys[2 * i], byte(forms, i), 1
  local done, reply
  if form == r then
    done, reply = pcall(fenced_release, key, counter, args[a])
  else
    n = form == s and 1 or form - zero
    if full then
      done, reply = true, full
    elseif form == s then
      done, reply = pcall(fenced_acquire, key, counter, args[a], ttl, now, nil, nil, nil, begun)
    else
      local keep, floor, block = n > 3 and args[a + 3] or nil, n > 4 and args[a + 4] or nil, n > 5 and args[a + 5] or nil
      done, reply = pcall(fenced_acquire, key, counter, args[a], args[a + 1], args[a + 2], keep, floor, block, {})
    end
  end
  if not done and type(reply) ~= 'table' then
    reply = redis.error_reply(string.match(reply, '^%u+ ') and reply or 'ERR ' .. reply)
  end
  if type(reply) == 'table' and string.find(': ' .. reply.err, ': %-?OOM ') then
    full = reply
  end
  replies[i] = reply or false
  a = a + n
end
return replies
