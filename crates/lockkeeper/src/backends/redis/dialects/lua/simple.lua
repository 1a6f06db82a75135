-- no arguments: the gate of the dialect "simple", which every verb asks
-- A plain key whose value is the holder's secret: what redis-py's Lock and the Redlock libraries write.
local gate = {}

function gate.owned_by(key, id)
  return redis.call('GET', key) == id
end

function gate.take(key, id, lease)
  redis.call('SET', key, id, 'PX', lease)
end

function gate.free(key)
  redis.call('DEL', key)
end

function gate.secret(key)
  return redis.call('GET', key)
end
