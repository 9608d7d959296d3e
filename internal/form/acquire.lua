-- SET of key with the words behind it. With a counter it reads that first, and the time: what an acquire with fencing needs, too.
-- What SET replies; an error reply if one of them may not be done.
if KEYS[2] then
  redis.call('TIME')
  redis.call('GETRANGE', KEYS[2], 0, 16)
end
return redis.call('SET', KEYS[1], unpack(ARGV))
