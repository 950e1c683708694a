-- Appends entries. Redis runs one script at a time, which defines the order of the messages.
-- KEYS: head, entries.
-- ARGV: token, expected position or '', time to live in ms or 0, '+' and the model or '', input, output, cached,
-- written, reasoning, cost or '', entries.
local MAX_COUNT = 9007199254740991
local head = redis.call('HMGET', KEYS[1], 'messages', 'changed', 'recent', 'format')
if not head[1] then
    return {'unknown'}
end
if head[4] ~= '1' then
    return {'newer', head[4]}
end
local messages = tonumber(head[1])
if redis.call('LLEN', KEYS[2]) ~= messages then
    return {'damaged'}
end
-- A repetition after a broken connection: it already took effect.
local done = string.match(head[3], ARGV[1] .. '=(%d+)')
if done then
    return {'done', done, head[2]}
end
if ARGV[2] ~= '' and tonumber(ARGV[2]) ~= messages then
    return {'conflict', head[1]}
end
if #ARGV < 11 then
    return {'done', head[1], head[2]}
end
local clock = redis.call('TIME')
local now = math.max(clock[1] * 1000 + math.floor(clock[2] / 1000), tonumber(head[2]))
local changed = string.format('%.0f', now)
local position = string.format('%.0f', messages + #ARGV - 10)
-- The last 32 writes are stored, so that a repeated one is detected.
local recent = {}
for call in string.gmatch(head[3] .. ',' .. ARGV[1] .. '=' .. position, '[^,]+') do
    table.insert(recent, call)
end
if #recent > 32 then
    table.remove(recent, 1)
end
redis.call('HSET', KEYS[1], 'messages', position, 'changed', changed, 'recent', table.concat(recent, ','))
if ARGV[4] ~= '' then
    redis.call('HSET', KEYS[1], 'model', string.sub(ARGV[4], 2))
end
for index, name in ipairs({'input', 'output', 'cached', 'written', 'reasoning', 'cost'}) do
    local more = ARGV[4 + index]
    if more ~= '' then
        local sum = tonumber(redis.call('HGET', KEYS[1], name) or '0') + tonumber(more)
        redis.call('HSET', KEYS[1], name, string.format('%.0f', math.min(sum, MAX_COUNT)))
    end
end
for index = 11, #ARGV do
    redis.call('RPUSH', KEYS[2], changed .. ':' .. ARGV[index])
end
if ARGV[3] ~= '0' then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    redis.call('PEXPIRE', KEYS[2], ARGV[3])
end
return {'done', position, changed}
