#!lua
-- A step of building in a partition what a store of an older format lacks: lists by phase, and of finished runs by status. ARGV[1]
-- is the format that the partition becomes of, ARGV[2] the step, ARGV[3] where it goes on, ARGV[4] how many members it looks at.
-- Returns where the next step goes on; '' if it is over. Each may be done again. A partition that is of the format is left alone: a
-- node owns it, perhaps.
local owner, state, jobs, pending, phases = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local runs, history, finished, dead = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local step, from, most = ARGV[2], ARGV[3], tonumber(ARGV[4])
local call, sub, byte, find = redis.call, string.sub, string.byte, string.find
if call('HGET', owner, 'format') == ARGV[1] then return '' end

-- status reads field 4 of a run: the fields before it, 1 to 3, have a length.
local function status(v)
  local j1, j2 = byte(v, 20, 21)
  local at = 22 + j1 * 256 + j2
  while byte(v, at) == 0x0a or byte(v, at) == 0x12 or byte(v, at) == 0x1a do
    local length = byte(v, at + 1)
    if not length or length > 127 then return nil end
    at = at + 2 + length
  end
  if byte(v, at) == 0x20 then return byte(v, at + 1) end
end

local function page(index)
  local found = call('ZRANGE', index, from == '' and '-' or '(' .. from, '+', 'BYLEX', 'LIMIT', 0, most)
  return found, #found == most and found[#found] or ''
end

if step == 'begin' then -- a node that was halted writes nothing more
  if call('EXISTS', owner) == 1 then call('HSET', owner, 'node', '', 'until', '0', 'ttl', '0') end
  return ''
end
if step == 'jobs' or step == 'pending' then
  local refs, last = page(step == 'jobs' and jobs or pending)
  for i = 1, #refs do
    local v = call('HGET', state, refs[i])
    local phase = v and sub(v, 5, 5) or ''
    if phase ~= '' and phase ~= '\0' then call('ZADD', phases, 0, phase .. (step == 'jobs' and '\0' or '\1') .. refs[i]) end
  end
  return last
end
if step == 'runs' then
  local members, last = page(history)
  for i = 1, #members do
    local id = sub(members[i], find(members[i], '\0', find(members[i], '\0', 1, true) + 1, true) + 1, -2)
    local v = call('HGET', runs, id)
    local s = v and #v > 21 and (byte(v, 1) > 1 and byte(v, 1) or status(v))
    if s then
      local n1, n2 = byte(v, 18, 19)
      v = string.char(s) .. sub(v, 2)
      call('HSET', runs, id, v)
      call('ZADD', finished, 0, sub(v, 1, 1) .. sub(v, 22, 21 + n1 * 256 + n2) .. sub(v, 10, 17) .. id)
    end
  end
  return last
end
if step == 'dead' then
  call('ZREMRANGEBYRANK', dead, 0, most - 1)
  return call('ZCARD', dead) > 0 and 'more' or ''
end
call('HSET', owner, 'format', ARGV[1])
return ''
