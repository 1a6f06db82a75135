-- KEYS: for each name lock, waiting; ARGV: none
-- returns: the time (ms), then for each name the lock's record or nothing, its time left (ms), and the waiting
local told = {now_ms()}
for k = 1, #KEYS, 2 do
  local n = #told
  told[n + 1] = redis.call('GET', KEYS[k]) or ''
  told[n + 2] = redis.call('PTTL', KEYS[k])
  told[n + 3] = redis.call('HGETALL', KEYS[k + 1])
end
return told
