-- SET of key with the words behind it.
-- What key holds then, 1025 bytes at most, and its TTL in milliseconds, both in an array; an error reply if it is not a string.
redis.call('SET', KEYS[1], unpack(ARGV))
return {redis.call('GETRANGE', KEYS[1], 0, 1024), redis.call('PTTL', KEYS[1])}
