#!lua flags=no-writes
-- Reads a page of an index whose members end in refs: those from ARGV[1] to ARGV[2]. It ends after ARGV[3] records, after
-- a number of members looked at, or when it has grown long. Returns {1 if the index goes on, last member looked at,
-- ref, state, spec or nil, ref, …}.
local index, state, spec = KEYS[1], KEYS[2], KEYS[3]
local from, to, limit, skip = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local maxspec, phase, prefix = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local scan, most = tonumber(ARGV[8]), tonumber(ARGV[9])
local call = redis.call

local out, bytes, last = {0, ''}, 0, 0
local page = call('ZRANGE', index, from, to, 'BYLEX', 'LIMIT', 0, scan)
for i = 1, #page do
  if (#out - 2) / 3 >= limit or bytes > most then break end
  local ref = string.sub(page[i], skip + 1)
  local wanted = true
  if prefix ~= '' then -- of the name, whatever the namespace
    local name = string.find(ref, '\0', 1, true) + 1
    wanted = string.sub(ref, name, name + #prefix - 1) == prefix
  end
  local v = wanted and call('HGET', state, ref)
  if v and (phase < 0 or string.byte(v, 5) == phase) then
    local body = false
    if maxspec == 0 or call('HSTRLEN', spec, ref) <= maxspec then body = call('HGET', spec, ref) end
    bytes = bytes + #v + (body and #body or 0)
    out[#out + 1], out[#out + 2], out[#out + 3] = ref, v, body
  end
  last = i
end
if last < #page or #page == scan then out[1] = 1 end
if last > 0 then out[2] = page[last] end
return out
