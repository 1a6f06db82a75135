-- KEYS: claims of the name. ARGV: id. Returns 1 if the claim was there.
-- The quick way: the claim is not there, or is there alone.
local found = redis.call('HMGET', KEYS[1], ARGV[1], '')
if not found[1] then
  return 0
end
if not found[2] then
  redis.call('DEL', KEYS[1])
  return 1
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

