-- Writes a document and the end of a log, if the holder has the claim, and renews the claim.
-- KEYS: claim, document, log.
-- ARGV: holder, its lifetime, document or an empty text, its lifetime, position, lifetime of the log, entries.
-- Lifetimes are in milliseconds.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if ARGV[3] ~= '' then
    redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
end
if #ARGV > 6 then
    if ARGV[5] == '0' then
        redis.call('DEL', KEYS[3])
    else
        redis.call('LTRIM', KEYS[3], 0, ARGV[5] - 1)
    end
    for entry = 7, #ARGV do
        redis.call('RPUSH', KEYS[3], ARGV[entry])
    end
    redis.call('PEXPIRE', KEYS[3], ARGV[6])
end
return 1
