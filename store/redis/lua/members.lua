#!lua
-- Returns the members that live, {id, value, …}, and forgets the others.
local time = redis.call('TIME')
local now, all, out = time[1] * 1000000 + time[2], redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  if tonumber(string.match(all[i + 1], '^%d+')) <= now then
    redis.call('HDEL', KEYS[1], all[i])
  else
    out[#out + 1], out[#out + 2] = all[i], all[i + 1]
  end
end
return out
