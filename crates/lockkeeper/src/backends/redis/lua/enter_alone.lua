-- KEYS: claims of the name, order of its bucket. ARGV: id, lease in ms, "try" or "queue", mode, channel and party.
-- The quick way: nobody has the name. The claim is then a hash of one field, and the key's expiry is its lease.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Numbers in order of time, and rising whatever the clock does.
local function next_order()
  local last = redis.call('SET', KEYS[2], string.format('%.0f', now), 'GET')
  last = last and tonumber(last)
  if not last or last < now then
    return now
  end
  redis.call('SET', KEYS[2], string.format('%.0f', last + 1))
  return last + 1
end

-- Joined, not formatted: '%s' ends at a zero byte, and a label may hold one.
local function record(order)
  return string.format('%.0f ', order) .. ARGV[4] .. ' ' .. ARGV[5]
end

local id, lease = ARGV[1], tonumber(ARGV[2])
local function enter_alone()
  local order = next_order()
  redis.call('HSET', KEYS[1], id, record(order))
  local told = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if told ~= 1 then
    -- The right to do this was taken away: nothing may stay for ever.
    redis.call('DEL', KEYS[1])
    error(told)
  end
  return { 1, order, lease }
end

if redis.call('EXISTS', KEYS[1]) == 0 then
  return enter_alone()
end

