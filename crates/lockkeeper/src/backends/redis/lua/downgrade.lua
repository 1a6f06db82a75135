-- KEYS: claims of the name. ARGV: id, lease in ms. Returns the claim's standing.
local claims, id, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
local held = redis.call('GET', claims)
local record, list
if held and is_list(held) then
  list = open(claims, held)
  bury(list)
  promote(list)
  record = list.count > 0 and redis.call('HGET', list.records, id)
elseif held and alone(held) == id then
  record = string.sub(held, 17)
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
  -- First the expiry, which needs no memory.
  redis.call('PEXPIRE', claims, ARGV[2])
  redis.call('SET', claims, id .. shared, 'KEEPTTL')
  return { 1, order, lease }
end
renew(list, id, lease)
redis.call('HSET', list.records, id, shared)
if redis.call('ZRANK', list.queue, id) < list.holders then
  list.kind = 's'
end
promote(list)
return { standing(list, id) }
