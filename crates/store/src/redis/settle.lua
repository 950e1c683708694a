-- Replaces the reserved tokens of a request by those that it used.
-- KEYS: minute, reserved, used, settled.
-- ARGV: id, month, reserved tokens, start of the minute, used tokens, '1' if the key has a budget.
if not redis.call('SET', KEYS[4], '1', 'NX', 'PX', 600000) then
    -- Already settled, and repeated after a broken connection.
    return 0
end
-- The reservation of a long request may have expired.
redis.call('ZREM', KEYS[2], ARGV[1] .. ':' .. ARGV[2] .. ':' .. ARGV[3])
if redis.call('HGET', KEYS[1], 'start') == ARGV[4] then
    local more = tonumber(ARGV[5]) - tonumber(ARGV[3])
    redis.call('HINCRBY', KEYS[1], 'tokens', string.format('%.0f', more))
end
if ARGV[6] == '1' then
    redis.call('HINCRBY', KEYS[3], ARGV[2], ARGV[5])
end
return 1
