-- KEYS: value, fence. ARGV: token in 19 digits, claim, value. Gives the fence's record if it refuses, else false.
-- The numbers are compared as text of equal length: a Lua number has 53 bits only.
local seen = redis.call('GET', KEYS[2])
if seen then
  local token, claim = string.sub(seen, 1, 19), string.sub(seen, 21)
  if #seen ~= 52 or ARGV[1] < token or (ARGV[1] == token and ARGV[2] ~= claim) then
    return seen
  end
end
redis.call('MSET', KEYS[2], ARGV[1] .. '.' .. ARGV[2], KEYS[1], ARGV[3])
return false
