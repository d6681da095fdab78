#!lua
-- Begins to make a store of format ARGV[1] one of another format, unless members live. Returns those that do. In each format the key
-- that signs tokens has another name: a node of an older format that opened the store before joins and claims only where it finds it
-- under the name that it knows, and none that is started finds it. What is not of format ARGV[1] another node has changed meanwhile.
if redis.call('HGET', KEYS[2], 'format') ~= ARGV[1] then return {} end
local time = redis.call('TIME')
local now, all, out = time[1] * 1000000 + time[2], redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  local till, ttl = string.match(all[i + 1], '^(%d+) (%d+) ')
  till = till or string.match(all[i + 1], '^%d+') -- of the first builds, which did not say for how long
  if now < tonumber(till) and (not ttl or tonumber(till) < now + 2 * ttl) then out[#out + 1] = all[i] end
end
if #out > 0 then return out end
for _, name in ipairs({'mackey', 'signing_key', 'token_key', 'key_4', 'key_5'}) do
  local key = redis.call('HGET', KEYS[2], name)
  if key then
    redis.call('HSET', KEYS[2], 'key_6', key)
    redis.call('HDEL', KEYS[2], name)
  end
end
return out
