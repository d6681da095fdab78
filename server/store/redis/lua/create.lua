#!lua
-- Returns what the store was created with, {format, partitions, key that signs tokens}; creates it as ARGV says if it is not there.
-- In each format before this one the key had another name.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'format', ARGV[1], 'partitions', ARGV[2], 'key_6', ARGV[3])
end
local meta = redis.call('HMGET', KEYS[1], 'format', 'partitions', 'key_6', 'key_5', 'key_4', 'token_key', 'signing_key', 'mackey')
return {meta[1] or '', meta[2] or '', meta[3] or meta[4] or meta[5] or meta[6] or meta[7] or meta[8] or ''}
