-- KEYS: claims of the name. ARGV: id, lease in ms. Returns the claim's standing.
local claims, id, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
local found = redis.call('HMGET', claims, id, '')
local record, list = found[1], nil
if record and found[2] then
  list = open(claims, found[2])
  bury(list)
  promote(list)
  record = list.count > 0 and redis.call('HGET', claims, id)
end
if not record then
  return { 0, 0, 0 }
end
local order, mode = parse(record)
if mode ~= 'x' and mode ~= 's' then
  return redis.error_reply('MODE ' .. mode)
end
local shared = string.gsub(record, '^(%d+) x ', '%1 s ', 1)
if not list then
  redis.call('PEXPIRE', claims, ARGV[2])
  redis.call('HSET', claims, id, shared)
  return { 1, order, lease }
end
renew(list, id, lease)
redis.call('HSET', claims, id, shared)
if redis.call('ZRANK', list.queue, id) < list.holders then
  list.kind = 's'
end
promote(list)
return { standing(list, id) }
