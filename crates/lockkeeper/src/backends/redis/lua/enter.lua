-- Behind others. KEYS and ARGV as in enter_alone.lua.
local list
if is_list(held) then
  list = open(KEYS[1], held)
  bury(list)
  promote(list)
  if list.count > 0 and redis.call('ZSCORE', list.queue, id) then
    renew(list, id, lease)
    return { standing(list, id) }
  end
else
  local owner, order = alone(held)
  if owner == id then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return order
  end
  list = unfold(KEYS[1], held)
end

local mode = string.match(rest, '^ (%S+)')
local holds = list.count == list.holders and fits(list, mode)
if ARGV[3] == 'try' and not holds then
  return { 0, 0, 0 }
end
if list.count == 0 then
  -- Everybody was dead.
  redis.call('SET', KEYS[1], id .. micros .. rest, 'PX', ARGV[2])
  return number_alone(redis.pcall('SET', KEYS[2], micros, 'GET'))
end

local last, last_order
if list.unfold then
  last_order = list.first_order
else
  last, last_order = unpack(redis.call('ZRANGE', list.queue, -1, -1, 'WITHSCORES'))
end
local order = rising(redis.pcall('SET', KEYS[2], micros, 'GET'), last_order)
local function step_in()
  if list.unfold then
    list.unfold()
  end
  redis.call('HSET', list.records, id, order .. rest)
  redis.call('ZADD', list.queue, order, id)
  redis.call('ZADD', list.ends, string.format('%.0f', now_ms + lease), id)
  look_ahead(list)
  keep_keys(list, lease)
end

local fine, why = pcall(step_in)
if not fine then
  -- A right was taken away, or a key is elsewhere: nothing may stay half done, or for ever.
  if list.unfold then
    redis.pcall('DEL', list.queue, list.ends, list.records)
  else
    redis.pcall('ZREM', list.queue, id)
    redis.pcall('ZREM', list.ends, id)
    redis.pcall('HDEL', list.records, id)
  end
  error({ err = reason(why) })
end
list.count = list.count + 1
if holds then
  join(list, mode)
end
store(list)
if holds then
  return order
end
local ends = list.first_end or redis.call('ZSCORE', list.ends, last)
return { 2, list.count - 1, ends - now_ms }
