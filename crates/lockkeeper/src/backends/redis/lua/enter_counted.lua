-- KEYS, ARGV and answer as in enter_alone.lua, which follows where this does not do. The quickest way: the number is one
-- more than the last, and likely the one that the claim brings along; zero, if it will hardly get in at once. It is for
-- connections on which the counter was lately lifted to the server's time; a counter that is short is new, and its data
-- are lost.
local claim, guess = ARGV[1], tonumber(string.sub(ARGV[1], 17, 32))
if guess > 0 then
  local count = redis.call('INCR', KEYS[2])
  if count ~= guess then
    -- As an integer, which is quicker to write than a fraction without digits.
    claim = string.sub(claim, 1, 16) .. string.format('%d', count) .. string.sub(claim, 33)
  end
  if count >= 1e15 and redis.call('SET', KEYS[1], claim, 'NX', 'PX', ARGV[2]) then
    return count
  end
end

