-- KEYS, ARGV and answer as in enter_alone.lua, which follows where this does not apply. The fast path: the number is one
-- more than the last. It is for connections on which the counter was recently raised to the server's time; a counter that
-- is short is new, and its data are lost.
local count = redis.call('INCR', KEYS[2])
-- `%d` formats an integer faster than `%.0f`.
local claim = string.sub(ARGV[1], 1, 16) .. string.format('%d', count) .. string.sub(ARGV[1], 33)
if count >= 1e15 and redis.call('SET', KEYS[1], claim, 'NX', 'PX', ARGV[2]) then
  return count
end

