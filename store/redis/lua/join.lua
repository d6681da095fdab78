#!lua
-- Writes or renews the member ARGV[1] with the nonce ARGV[3] and what ARGV[4] says of it; it lives for ARGV[2] µs. Returns 1,
-- or 0 if a member of that id and another nonce lives.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local old = redis.call('HGET', KEYS[1], ARGV[1])
if old then
  local till, nonce = string.match(old, '^(%d+) (%d+)')
  if nonce ~= ARGV[3] and now < tonumber(till) then return 0 end
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now + ARGV[2]) .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
return 1
