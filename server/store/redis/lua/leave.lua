#!lua
-- Removes the member ARGV[1] if it has the nonce ARGV[2]; 0 is any.
local old = redis.call('HGET', KEYS[1], ARGV[1])
if old and (ARGV[2] == '0' or string.match(old, '^%d+ %d+ (%d+)') == ARGV[2]) then redis.call('HDEL', KEYS[1], ARGV[1]) end
return 1
