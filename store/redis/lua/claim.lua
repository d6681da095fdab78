#!lua
-- Takes a partition for the node ARGV[1] under the nonce ARGV[2] for ARGV[3] µs, if it is free, expired or the node's own.
-- Returns the epoch, or nil if somebody else holds it. The replication id goes with the term: where it changes, this
-- server is not what the owner read from.
local owner = redis.call('HMGET', KEYS[1], 'epoch', 'node', 'until')
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if owner[2] and owner[2] ~= '' and owner[2] ~= ARGV[1] and now < tonumber(owner[3]) then return false end
local epoch = string.format('%.0f', tonumber(owner[1] or 0) + 1)
redis.call('HSET', KEYS[1], 'epoch', epoch, 'nonce', ARGV[2], 'node', ARGV[1],
  'until', string.format('%.0f', now + ARGV[3]),
  'replid', string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)'))
return epoch
