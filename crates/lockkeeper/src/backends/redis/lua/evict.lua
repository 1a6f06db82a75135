-- KEYS: claims of the name, what was broken in its bucket. ARGV: order, what to note. Returns 1 if it was there.
local claims = KEYS[1]
local held = redis.call('GET', claims)
local id, channel, list
if held and is_list(held) then
  list = open(claims, held)
  bury(list)
  promote(list)
  id = list.count > 0 and redis.call('ZRANGEBYSCORE', list.queue, ARGV[1], ARGV[1])[1]
  local record = id and redis.call('HGET', list.records, id)
  channel = record and select(3, parse(record))
elseif held then
  local owner, order, _, hears = alone(held)
  if order == tonumber(ARGV[1]) then
    id, channel = owner, hears
  end
end
if not id then
  return 0
end

if list then
  take_out(list, id)
  promote(list)
else
  redis.call('DEL', claims)
end
-- Its keeper asks, and learns that it is gone.
if channel then
  redis.pcall('PUBLISH', channel, id)
end
redis.call('LPUSH', KEYS[2], string.format('%.0f ', now) .. ARGV[2])
local told = redis.pcall('PEXPIRE', KEYS[2], 30 * 24 * 3600 * 1000)
if told ~= 1 then
  -- The right to do this was taken away: no note may stay for ever.
  redis.call('LTRIM', KEYS[2], 1, -1)
  error(told)
end
redis.call('LTRIM', KEYS[2], 0, 999)
return 1
