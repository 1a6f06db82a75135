-- KEYS: claims of the name, what was broken in its bucket. ARGV: order, what to note. Returns 1 if it was there.
local claims = KEYS[1]
local id, record, list
local head = redis.call('HGET', claims, '')
if head then
  list = open(claims, head)
  bury(list)
  promote(list)
  id = list.count > 0 and redis.call('ZRANGEBYSCORE', list.queue, ARGV[1], ARGV[1])[1]
  record = id and redis.call('HGET', claims, id)
else
  local alone = redis.call('HGETALL', claims)
  if alone[2] and string.match(alone[2], '^%d+') == ARGV[1] then
    id, record = alone[1], alone[2]
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
local _, _, channel = parse(record)
redis.pcall('PUBLISH', channel, id)
redis.call('LPUSH', KEYS[2], string.format('%.0f ', now) .. ARGV[2])
local told = redis.pcall('PEXPIRE', KEYS[2], 30 * 24 * 3600 * 1000)
if told ~= 1 then
  -- The right to do this was taken away: no note may stay for ever.
  redis.call('LTRIM', KEYS[2], 1, -1)
  error(told)
end
redis.call('LTRIM', KEYS[2], 0, 999)
return 1
