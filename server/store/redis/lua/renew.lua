#!lua
-- Extends the lease of the node ARGV[1] under the term ARGV[2], ARGV[3] by ARGV[4] µs from now. Returns 1, or 0 if it is
-- lost: held under another term, released, or this server is not the one, or not in the state, that gave it.
local owner = redis.call('HMGET', KEYS[1], 'node', 'epoch', 'nonce', 'replid')
if owner[1] ~= ARGV[1] or owner[2] ~= ARGV[2] or owner[3] ~= ARGV[3] then return 0 end
if owner[4] ~= string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') then return 0 end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'until', string.format('%.0f', time[1] * 1000000 + time[2] + ARGV[4]), 'ttl', ARGV[4])
return 1
