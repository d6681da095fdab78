#!lua flags=no-writes
-- Reads the first job of each namespace after ARGV[1] ('' is before all), at most ARGV[2], and ends early when it has grown long.
-- Returns {1 if the index may go on, last namespace, ref, state, spec or nil, ref, …}. Members begin with the namespace and a 0;
-- what follows all of a namespace begins with it and a 1, so each step is a search in the index.
local index, state, spec = KEYS[1], KEYS[2], KEYS[3]
local after, limit, maxspec, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local call = redis.call

local out, bytes = {1, after}, 0
for _ = 1, limit do
  if bytes > most then break end
  local from = after == '' and '-' or '[' .. after .. '\1'
  local ref = call('ZRANGE', index, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
  if not ref then
    out[1] = 0
    break
  end
  after = string.sub(ref, 1, string.find(ref, '\0', 1, true) - 1)
  local v = call('HGET', state, ref)
  if v then
    local body = false
    if maxspec == 0 or call('HSTRLEN', spec, ref) <= maxspec then body = call('HGET', spec, ref) end
    bytes = bytes + #v + (body and #body or 0)
    out[#out + 1], out[#out + 2], out[#out + 3] = ref, v, body
  end
end
out[2] = after
return out
