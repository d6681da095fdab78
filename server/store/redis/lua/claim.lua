#!lua
-- Takes a partition for the node ARGV[1] under the nonce ARGV[2] for ARGV[3] µs, if it is free, expired or the node's own.
-- Returns the epoch, or nil if somebody else holds it. The replication id goes with the term: where it changes, this
-- server is not what the owner read from. An epoch is at least the seconds since 1970: also one that is given after a failover, or
-- in an older copy of the data, is greater than those that were lost. A lease that has longer to go than it was given for was
-- given before the clock was set back; it does not last for as much longer.
local owner = redis.call('HMGET', KEYS[1], 'epoch', 'node', 'until', 'ttl')
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if owner[2] and owner[2] ~= '' and owner[2] ~= ARGV[1] then
  local till, ttl = tonumber(owner[3]), tonumber(owner[4])
  if now < till and till < now + 2 * ttl then return false end
end
local epoch = string.format('%.0f', math.max(tonumber(owner[1] or 0) + 1, tonumber(time[1])))
redis.call('HSET', KEYS[1], 'epoch', epoch, 'nonce', ARGV[2], 'node', ARGV[1],
  'until', string.format('%.0f', now + ARGV[3]), 'ttl', ARGV[3],
  'replid', string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)'))
return epoch
