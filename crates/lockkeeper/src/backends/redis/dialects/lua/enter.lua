-- KEYS: the lock; ARGV: own, id, lease in ms, "try" or "queue", keeper, party
local id, lease, entry = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local lock = lock_at(KEYS[1])
-- Also fails, before anything is written, on a key that is no lock of this dialect.
gate.owned_by(lock.key, id)
purge(lock, id)

local function next_order()
  local last = tonumber(redis.call('GET', own .. 'order') or '0')
  local order = math.max(last + 1, now_us)
  redis.call('SET', own .. 'order', digits(order))
  return order
end

if not redis.call('ZSCORE', lock.line, id) then
  local taken = redis.call('EXISTS', lock.key, lock.line) > 0
  if entry == 'try' and taken then
    return { GONE }
  end
  redis.call('ZREMRANGEBYSCORE', names, '-inf', now)
  redis.call('ZADD', lock.line, next_order(), id)
  write(lock, id, { held = false, since = now, keeper = ARGV[5], party = ARGV[6] })
end
return renewed(lock, id, lease)
