-- Stands before a script that takes a lock, until a connection has granted one: who could not release a lock, nor extend it, takes none. What
-- that needs is done to KEYS[1], if it does not exist, in a way that changes nothing. SET comes first: a server that is out of memory refuses
-- it, as it would the one that takes the lock, and checks nothing behind the first write.
if redis.call('PTTL', KEYS[1]) == -2 then
  redis.call('SET', KEYS[1], ARGV[1], 'XX', 'PX', 1)
  redis.call('GETRANGE', KEYS[1], 0, 1024)
  redis.call('PEXPIRE', KEYS[1], 1)
  redis.call('DEL', KEYS[1])
end
