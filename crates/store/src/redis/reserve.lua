-- Counts a request and reserves its tokens, unless a limit would be exceeded.
-- KEYS: minute, reserved, used.
-- ARGV: id, month, tokens, lifetime in ms, requests per minute or '', tokens per minute or '', tokens per month or ''.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local tokens = tonumber(ARGV[3])
local member = ARGV[1] .. ':' .. ARGV[2] .. ':' .. ARGV[3]
local minute = redis.call('HMGET', KEYS[1], 'start', 'requests', 'tokens')
local start = tonumber(minute[1] or now)
-- A repetition after a broken connection: it already took effect.
if redis.call('ZSCORE', KEYS[2], member) then
    return {'done', start}
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
local left = redis.call('PTTL', KEYS[1])
if left < 1 then
    left = 1
end
if ARGV[5] ~= '' and tonumber(minute[2] or 0) >= tonumber(ARGV[5]) then
    return {'requests', left}
end
if ARGV[6] ~= '' and tonumber(minute[3] or 0) + tokens > tonumber(ARGV[6]) then
    return {'tokens', left}
end
if ARGV[7] ~= '' then
    local sum = tonumber(redis.call('HGET', KEYS[3], ARGV[2]) or 0) + tokens
    for _, running in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
        local month, reserved = string.match(running, ':([^:]*):(%d+)$')
        if month == ARGV[2] then
            sum = sum + tonumber(reserved)
        end
    end
    if sum > tonumber(ARGV[7]) then
        return {'budget', 0}
    end
end
if not minute[1] then
    redis.call('HSET', KEYS[1], 'start', string.format('%.0f', now))
    redis.call('PEXPIRE', KEYS[1], 60000)
end
redis.call('HINCRBY', KEYS[1], 'requests', 1)
redis.call('HINCRBY', KEYS[1], 'tokens', ARGV[3])
redis.call('ZADD', KEYS[2], string.format('%.0f', now + tonumber(ARGV[4])), member)
local lifetime = math.max(tonumber(ARGV[4]), redis.call('PTTL', KEYS[2]))
redis.call('PEXPIRE', KEYS[2], string.format('%.0f', lifetime))
return {'done', start}
