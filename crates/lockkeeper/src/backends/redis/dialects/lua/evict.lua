-- KEYS: the lock; ARGV: own, order number, the reason, how many reasons are kept and for how many ms
local order = tonumber(ARGV[2])
local lock = lock_at(KEYS[1])
purge(lock)
local head = head_of(lock)
local id = redis.call('ZRANGEBYSCORE', lock.line, ARGV[2], ARGV[2])[1]
if id then
  if gate.owned_by(lock.key, id) then
    gate.free(lock.key)
  end
  leave(lock, id)
elseif redis.call('EXISTS', lock.key) == 1 and order == number_of_stranger(lock) then
  gate.free(lock.key)
else
  return 0
end
redis.call('LPUSH', own .. 'broken', lock.key .. ' order ' .. ARGV[2] .. ': ' .. ARGV[3])
redis.call('LTRIM', own .. 'broken', 0, ARGV[4] - 1)
redis.call('PEXPIRE', own .. 'broken', ARGV[5])
if not id or id == head then
  wake_head(lock)
end
return 1
