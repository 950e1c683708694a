-- Adds work to the list of unfinished work, or changes when it is due. The clock is that of Redis, so the clocks of
-- the gateways do not matter.
-- KEYS: unfinished.
-- ARGV: member, time until it is due in milliseconds.
local clock = redis.call('TIME')
local due = clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ARGV[2])
return redis.call('ZADD', KEYS[1], string.format('%.0f', due), ARGV[1])
