#!lua flags=no-writes
-- Reads the records of the refs in ARGV[2…]; returns {state or nil, spec or nil, …}. It ends early, after at least one,
-- when there are more than ARGV[1] bytes.
local state, spec, most = KEYS[1], KEYS[2], tonumber(ARGV[1])
local out, bytes = {}, 0
for i = 2, #ARGV do
  if bytes > most then break end
  local v, body = redis.call('HGET', state, ARGV[i]), redis.call('HGET', spec, ARGV[i])
  bytes = bytes + (v and #v or 0) + (body and #body or 0)
  out[2 * i - 3], out[2 * i - 2] = v, body
end
return out
