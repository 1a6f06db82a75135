-- Behind others. KEYS and ARGV as in enter_alone.lua.
local found = redis.call('HMGET', KEYS[1], id, '')
local head = found[2]

if found[1] and not head then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return { 1, (parse(found[1])), lease }
end

local list
if head then
  list = open(KEYS[1], head)
  bury(list)
  promote(list)
  if list.count > 0 and redis.call('ZSCORE', list.queue, id) then
    renew(list, id, lease)
    return { standing(list, id) }
  end
else
  list = unfold(KEYS[1])
end

local holds = list.count == list.holders and fits(list, ARGV[4])
if ARGV[3] == 'try' and not holds then
  return { 0, 0, 0 }
end
if list.count == 0 then
  -- Everybody was dead.
  return enter_alone()
end

local order = next_order()
local function step_in()
  if list.unfold then
    list.unfold()
  end
  redis.call('HSET', KEYS[1], id, record(order))
  redis.call('ZADD', list.queue, order, id)
  redis.call('ZADD', list.ends, now_ms + lease, id)
  keep_keys(list, now_ms + lease)
end

local fine, why = pcall(step_in)
if not fine then
  -- A right was taken away, or a key is elsewhere: nothing may stay half done, or for ever.
  if list.unfold then
    redis.pcall('DEL', list.queue, list.ends)
  else
    redis.pcall('ZREM', list.queue, id)
    redis.pcall('ZREM', list.ends, id)
  end
  redis.pcall('HDEL', KEYS[1], id)
  error({ err = reason(why) })
end
list.count = list.count + 1
if holds then
  join(list, ARGV[4])
end
store(list)
return { standing(list, id) }
