#!lua
-- Frees a partition that the node ARGV[1] holds under the term ARGV[2], ARGV[3]. The term stays, so that the next is greater.
local owner = redis.call('HMGET', KEYS[1], 'node', 'epoch', 'nonce')
if owner[1] ~= ARGV[1] or owner[2] ~= ARGV[2] or owner[3] ~= ARGV[3] then return 0 end
redis.call('HSET', KEYS[1], 'node', '', 'until', '0', 'ttl', '0')
return 1
