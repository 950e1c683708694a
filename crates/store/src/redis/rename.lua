-- Sets or removes the title. KEYS: head. ARGV: '+' and the title, or ''.
if redis.call('EXISTS', KEYS[1]) == 0 then
    return 0
end
if ARGV[1] == '' then
    redis.call('HDEL', KEYS[1], 'title')
else
    redis.call('HSET', KEYS[1], 'title', string.sub(ARGV[1], 2))
end
return 1
