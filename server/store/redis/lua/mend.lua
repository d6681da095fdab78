#!lua
-- Writes and removes entries of indexes, if the term in ARGV[1], ARGV[2] is in force; returns 1, or 0 if it is not. KEYS are those
-- of the partition, as in apply.lua. The others are groups of four: what to do, the number of the key, the member or field, and the
-- value of a field that is set.
local call = redis.call
local term = call('HMGET', KEYS[1], 'epoch', 'nonce', 'node', 'replid')
if term[1] ~= ARGV[1] or term[2] ~= ARGV[2] or not term[3] or term[3] == '' then return 0 end
if term[4] ~= string.match(call('INFO', 'replication'), 'master_replid:(%x+)') then return 0 end

for at = 3, #ARGV, 4 do
  local what, key, member, value = ARGV[at], KEYS[tonumber(ARGV[at + 1])], ARGV[at + 2], ARGV[at + 3]
  if what == 'zadd' then call('ZADD', key, 0, member)
  elseif what == 'zrem' then call('ZREM', key, member)
  elseif what == 'hset' then call('HSET', key, member, value)
  else call('HDEL', key, member) end
end
return 1
