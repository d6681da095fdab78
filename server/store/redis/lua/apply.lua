#!lua
-- Applies a batch, whole, if the term in ARGV[1], ARGV[2] is in force; returns 1, or 0 if it is not. Nothing is written
-- before that is known, and nothing after it can fail but for a key of a type that is not ours.
local owner, state, spec, jobs, pending, due, staged, live = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local runs, history, finished, age, deadage, small, smallkeys = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local phases = KEYS[16]
local call, sub, byte = redis.call, string.sub, string.byte

local term = call('HMGET', owner, 'epoch', 'nonce', 'node', 'replid')
if term[1] ~= ARGV[1] or term[2] ~= ARGV[2] or not term[3] or term[3] == '' then return 0 end
if term[4] ~= string.match(call('INFO', 'replication'), 'master_replid:(%x+)') then return 0 end

local at = 2
local function take()
  at = at + 1
  return ARGV[at]
end

-- entries are the index entries of a stored record, without its ref: due, staged, live.
local function entries(v)
  local d, s1, s2, l = byte(v, 1, 4)
  local s = s1 * 256 + s2
  return sub(v, 6, 5 + d), sub(v, 6 + d, 5 + d + s), sub(v, 6 + d + s, 5 + d + s + l)
end

-- listed is the member of a stored record in the list by phase; '' if it is scheduled.
local function listed(index, ref, v)
  local phase = sub(v, 5, 5)
  if phase == '\0' then return '' end
  return phase .. (index == pending and '\1' or '\0') .. ref
end

local function unlive(id, ref)
  if id ~= '' and call('HGET', live, id) == ref then call('HDEL', live, id) end
end

local function remove(index, ref)
  local v = call('HGET', state, ref)
  if v then
    local d, s, l = entries(v)
    if d ~= '' then call('ZREM', due, d .. ref) end
    if s ~= '' then call('ZREM', staged, s .. ref) end
    local p = listed(index, ref, v)
    if p ~= '' then call('ZREM', phases, p) end
    unlive(l, ref)
    call('HDEL', state, ref)
    call('HDEL', spec, ref)
  end
  call('ZREM', index, ref)
end

for _ = 1, take() do
  local kind, ref = take(), take()
  if kind == 'p' then
    remove(pending, ref)
  else
    remove(jobs, ref)
    local job = sub(ref, 1, -2)
    local from, to = '[' .. job, '(' .. sub(job, 1, -2) .. '\1'
    repeat
      local page = call('ZRANGE', pending, from, to, 'BYLEX', 'LIMIT', 0, 256)
      for i = 1, #page do remove(pending, page[i]) end
    until #page == 0
  end
end

-- All old index entries go before the first new one comes: a run may move from one record to another within a batch.
local puts = {}
for i = 1, take() do
  local kind, ref, v, body = take(), take(), take(), nil
  if kind == 'J' or kind == 'P' then body = take() end
  local p = {ref = ref, v = v, body = body, index = (kind == 'J' or kind == 'j') and jobs or pending}
  p.due, p.staged, p.live = entries(v)
  p.listed = listed(p.index, ref, v)
  p.old = call('HGET', state, ref)
  if p.old then
    p.wasdue, p.wasstaged, p.waslive = entries(p.old)
    if p.wasdue ~= '' and p.wasdue ~= p.due then call('ZREM', due, p.wasdue .. ref) end
    if p.wasstaged ~= '' and p.wasstaged ~= p.staged then call('ZREM', staged, p.wasstaged .. ref) end
    p.waslisted = listed(p.index, ref, p.old)
    if p.waslisted ~= '' and p.waslisted ~= p.listed then call('ZREM', phases, p.waslisted) end
    if p.waslive ~= p.live then unlive(p.waslive, ref) end
  end
  puts[i] = p
end
for i = 1, #puts do
  local p = puts[i]
  call('HSET', state, p.ref, p.v)
  if p.body then call('HSET', spec, p.ref, p.body) end
  if not p.old then call('ZADD', p.index, 0, p.ref) end
  if p.due ~= '' and p.due ~= p.wasdue then call('ZADD', due, 0, p.due .. p.ref) end
  if p.staged ~= '' and p.staged ~= p.wasstaged then call('ZADD', staged, 0, p.staged .. p.ref) end
  if p.listed ~= '' and p.listed ~= p.waslisted then call('ZADD', phases, 0, p.listed) end
  if p.live ~= '' and p.live ~= p.waslive then call('HSET', live, p.live, p.ref) end
end

-- places are where a stored run stands: whether it is dead, its job, and its members of the three indexes.
local function places(id, v)
  local n1, n2, j1, j2 = byte(v, 18, 21)
  local job, isdead = sub(v, 22, 21 + j1 * 256 + j2), byte(v, 1) == 6
  return isdead, job, job .. id .. (isdead and '\1' or '\0'), sub(v, 2, 9) .. id,
    sub(v, 1, 1) .. sub(job, 1, n1 * 256 + n2) .. sub(v, 10, 17) .. id
end

local function drop(id, v)
  local isdead, _, h, a, f = places(id, v)
  call('HDEL', runs, id)
  call('ZREM', history, h)
  call('ZREM', isdead and deadage or age, a)
  call('ZREM', finished, f)
end

for _ = 1, take() do
  local id, job = take(), take()
  local v = call('HGET', runs, id)
  if v then
    local isdead, of = places(id, v)
    if isdead and of == job then drop(id, v) end
  end
end

for _ = 1, take() do
  local id, v = take(), take()
  local old = call('HGET', runs, id)
  if old then drop(id, old) end
  local isdead, _, h, a, f = places(id, v)
  call('HSET', runs, id, v)
  call('ZADD', history, 0, h)
  call('ZADD', isdead and deadage or age, 0, a)
  call('ZADD', finished, 0, f)
end

local function dropall(ids)
  for i = 1, #ids do
    local v = call('HGET', runs, ids[i])
    if v then drop(ids[i], v) end
  end
end

-- A member of the history is job, id, and 1 if the run is dead.
for _ = 1, take() do
  local job, keep = take(), tonumber(take())
  local from, to = '[' .. job, '(' .. sub(job, 1, -2) .. '\1'
  local kept, gone = 0, {}
  repeat
    local page = call('ZRANGE', history, from, to, 'BYLEX', 'LIMIT', 0, 256)
    for i = 1, #page do
      if byte(page[i], -1) ~= 1 then
        if kept < keep then kept = kept + 1 else gone[#gone + 1] = sub(page[i], #job + 1, -2) end
      end
    end
    if #page > 0 then from = '(' .. page[#page] end
  until #page < 256
  dropall(gone)
end

-- earlier compares the first 8 bytes. Not with <, which goes by the server's locale.
local function earlier(a, b)
  for i = 1, 8 do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then return x < y end
  end
  return false
end

for _ = 1, take() do
  local before, most, limit = take(), tonumber(take()), tonumber(take())
  local gone = 0
  repeat
    local a, d = call('ZRANGE', age, 0, 0)[1], call('ZRANGE', deadage, 0, 0)[1]
    local oldest = a
    if d and (not a or earlier(d, a)) then oldest = d end
    local more = oldest and gone < limit and not earlier(before, oldest)
    if more then
      dropall({sub(oldest, 9)})
      gone = gone + 1
    end
  until not more
  local excess = call('ZCARD', age) - most
  if excess > limit - gone then excess = limit - gone end
  for _ = 1, excess do dropall({sub(call('ZRANGE', age, 0, 0)[1], 9)}) end
end

for _ = 1, take() do
  local kind, key = take(), take()
  if kind == 'd' then
    call('HDEL', small, key)
    call('ZREM', smallkeys, key)
  else
    call('HSET', small, key, take())
    call('ZADD', smallkeys, 0, key)
  end
end
return 1
