-- Returns the head and a range of entries atomically.
-- KEYS: head, entries. ARGV: first and last index.
return {redis.call('HGETALL', KEYS[1]), redis.call('LRANGE', KEYS[2], ARGV[1], ARGV[2])}
