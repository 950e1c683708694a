-- Returns one key, or all keys if the id is ''. Each has the time of its revocation, or '' if it is not revoked.
-- KEYS: records, revoked.
-- ARGV: id or ''.
local ids = {ARGV[1]}
if ARGV[1] == '' then
    ids = redis.call('HKEYS', KEYS[1])
end
local rows = {}
for _, id in ipairs(ids) do
    local record = redis.call('HGET', KEYS[1], id)
    if record then
        table.insert(rows, {record, redis.call('HGET', KEYS[2], id) or ''})
    end
end
return rows
