-- KEYS: claims of the name. ARGV: id. Returns 1 if the claim was there.
-- The quick way: the claim is not there, or is there alone.
local held = redis.call('GET', KEYS[1])
if not held then
  return 0
end
if string.sub(held, 1, 16) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
