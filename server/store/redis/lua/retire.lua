#!lua
-- Writes the member ARGV[1] with the nonce ARGV[3] and what ARGV[4] says of it, as join does, if another member lives whose capacity
-- is above 0. Returns what join does, or -1 if there is no other.
local meta = redis.call('HMGET', KEYS[2], 'partitions', 'key_6')
if meta[1] ~= ARGV[5] or meta[2] ~= ARGV[6] then return -2 end
local time = redis.call('TIME')
local now, all, other = time[1] * 1000000 + time[2], redis.call('HGETALL', KEYS[1]), false
for i = 1, #all, 2 do
  local till, ttl, nonce, text = string.match(all[i + 1], '^(%d+) (%d+) (%d+) (.*)$')
  local lives = now < tonumber(till) and tonumber(till) < now + 2 * ttl
  if all[i] == ARGV[1] then
    if lives and nonce ~= ARGV[3] then return 0 end
  elseif lives and cjson.decode(text).capacity > 0 then
    other = true
  end
end
if not other then return -1 end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now + ARGV[2]) .. ' ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
return 1
