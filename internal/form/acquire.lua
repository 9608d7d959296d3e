-- Carries out SET of KEYS[1] with the words in ARGV. If there is a counter, KEYS[2], the script first asks for the time
-- and reads the counter, as an acquire with fencing does. Returns the reply of SET, or an error reply if the user may
-- not use one of the commands.
if KEYS[2] then
  redis.call('TIME')
  redis.call('GETRANGE', KEYS[2], 0, 16)
end
return redis.call('SET', KEYS[1], unpack(ARGV))
