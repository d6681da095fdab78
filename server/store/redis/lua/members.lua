#!lua
-- Returns the members that live, {id, value, …}, and forgets the others: those whose time has run out, and those that have longer
-- to live than they were given, by a clock that was set back since. Who lives joins again.
local time = redis.call('TIME')
local now, all, out = time[1] * 1000000 + time[2], redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  local till, ttl = string.match(all[i + 1], '^(%d+) (%d+)')
  if now < tonumber(till) and tonumber(till) < now + 2 * ttl then
    out[#out + 1], out[#out + 2] = all[i], all[i + 1]
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
return out
