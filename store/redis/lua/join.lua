#!lua
-- Writes or renews the member ARGV[1] with capacity ARGV[3] and address ARGV[4]; it lives for ARGV[2] µs.
local time = redis.call('TIME')
local till = string.format('%.0f', time[1] * 1000000 + time[2] + ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], till .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
return 1
