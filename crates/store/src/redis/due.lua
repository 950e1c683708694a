-- Returns the work that is due, in the order of the times at which it was due.
-- KEYS: unfinished.
-- ARGV: how many.
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
