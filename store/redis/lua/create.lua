#!lua
-- Returns what the store was created with, {format, partitions, MAC key}; creates it as ARGV says if it is not there.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'format', ARGV[1], 'partitions', ARGV[2], 'mackey', ARGV[3])
end
return redis.call('HMGET', KEYS[1], 'format', 'partitions', 'mackey')
