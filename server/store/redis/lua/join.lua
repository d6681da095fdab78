#!lua
-- Writes or renews the member ARGV[1] with the nonce ARGV[3] and what ARGV[4] says of it; it lives for ARGV[2] µs. Returns 1,
-- 0 if a member of that id and another nonce lives, or -2 if the store is not the one with the partitions ARGV[5] and the key
-- ARGV[6]. A member that has longer to live than it was given was written before the clock was set back.
local meta = redis.call('HMGET', KEYS[2], 'partitions', 'key_6')
if meta[1] ~= ARGV[5] or meta[2] ~= ARGV[6] then return -2 end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local old = redis.call('HGET', KEYS[1], ARGV[1])
if old then
  local till, ttl, nonce = string.match(old, '^(%d+) (%d+) (%d+)')
  if nonce ~= ARGV[3] and now < tonumber(till) and tonumber(till) < now + 2 * ttl then return 0 end
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now + ARGV[2]) .. ' ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
return 1
