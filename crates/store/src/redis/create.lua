-- Creates a conversation with its entries, or nothing.
-- KEYS: head, entries.
-- ARGV: token, time to live in ms or 0, created or '', changed or '', the time of the last
-- entry or 0, how many fields, fields and values, entries.
local recent = redis.call('HGET', KEYS[1], 'recent')
if recent then
    if string.find(recent, ARGV[1], 1, true) then
        return {'done', redis.call('HGET', KEYS[1], 'created'), redis.call('HGET', KEYS[1], 'changed')}
    end
    return {'exists'}
end
local clock = redis.call('TIME')
local now = math.max(clock[1] * 1000 + math.floor(clock[2] / 1000), tonumber(ARGV[5]))
now = string.format('%.0f', now)
local created = ARGV[3] ~= '' and ARGV[3] or now
local changed = ARGV[4] ~= '' and ARGV[4] or now
local fields = tonumber(ARGV[6])
redis.call('HSET', KEYS[1], 'format', '1', 'created', created, 'changed', changed, 'recent', ARGV[1] .. '=0')
for index = 7, 6 + 2 * fields, 2 do
    redis.call('HSET', KEYS[1], ARGV[index], ARGV[index + 1])
end
-- Entries without a head are leftovers of an eviction and do not belong to this conversation.
redis.call('DEL', KEYS[2])
for index = 7 + 2 * fields, #ARGV do
    redis.call('RPUSH', KEYS[2], ARGV[index])
end
if ARGV[2] ~= '0' then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
return {'done', created, changed}
