#!lua flags=no-writes
-- Reads a page of an index, from ARGV[1] to ARGV[2], at most ARGV[3] of it, with the values that bytes ARGV[4] to ARGV[5] of
-- each member name. Returns {1 if it was cut short for its length, member, value, …}.
local index, values, from, to, limit = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3])
local first, last, most = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local out, bytes = {0}, 0
local page = redis.call('ZRANGE', index, from, to, 'BYLEX', 'LIMIT', 0, limit)
for i = 1, #page do
  if bytes > most then
    out[1] = 1
    break
  end
  local v = redis.call('HGET', values, string.sub(page[i], first, last))
  bytes = bytes + #page[i] + (v and #v or 0)
  out[#out + 1], out[#out + 2] = page[i], v
end
return out
