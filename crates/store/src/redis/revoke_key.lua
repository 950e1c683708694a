-- Revokes a key, and returns it.
-- KEYS: records, revoked.
-- ARGV: id, time.
local record = redis.call('HGET', KEYS[1], ARGV[1])
if not record then
    return {}
end
redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2])
return {{record, redis.call('HGET', KEYS[2], ARGV[1])}}
