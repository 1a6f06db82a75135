-- no arguments: the gate of the dialect "redisson", which every verb asks
-- The hash of an RLock: a field "client:thread" of the holder with its hold count. Whoever waits for it
-- listens to a channel of the lock; 0 says that it is free.
local gate = {}

function gate.owned_by(key, id)
  return redis.call('HEXISTS', key, id) == 1
end

function gate.take(key, id, lease)
  redis.call('HSET', key, id, 1)
  redis.call('PEXPIRE', key, lease)
end

function gate.free(key)
  local tagged = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
  -- First, since it may be forbidden. It is heard when the script is done.
  redis.call('PUBLISH', 'redisson_lock__channel:' .. tagged, 0)
  redis.call('DEL', key)
end

function gate.secret(key)
  return table.concat(redis.call('HKEYS', key), ' ')
end
