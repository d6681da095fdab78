#!lua
-- Makes a store of format ARGV[1] one of format ARGV[2], now that its partitions are. Another node may have done so.
if redis.call('HGET', KEYS[1], 'format') == ARGV[1] then redis.call('HSET', KEYS[1], 'format', ARGV[2]) end
return 1
