-- Stands before a script that takes a lock, until that was granted on the connection. A user that cannot extend and
-- release a lock must not take one. If KEYS[1] does not exist, the commands that this needs are carried out on it in a
-- way that changes nothing. SET comes first: a server that is out of memory refuses it, as it would refuse the SET that
-- takes the lock. Such a server checks nothing behind the first write.
if redis.call('PTTL', KEYS[1]) == -2 then
  redis.call('SET', KEYS[1], ARGV[1], 'XX', 'PX', 1)
  redis.call('GETRANGE', KEYS[1], 0, 1024)
  redis.call('PEXPIRE', KEYS[1], 1)
  redis.call('DEL', KEYS[1])
end
