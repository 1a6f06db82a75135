-- KEYS: value, fence. ARGV: token in 19 digits, claim, value. Gives the fence's record if it refuses, else false.
-- The numbers are compared as text of equal length: a Lua number has 53 bits only.
-- A record of another shape, or with a token below the lowest one (256), is refused too.
local seen = redis.call('GET', KEYS[2])
if seen then
  local shape = '^(' .. string.rep('%d', 19) .. ')%.(' .. string.rep('[0-9a-f]', 32) .. ')$'
  local token, claim = string.match(seen, shape)
  if not token or token < '0000000000000000256' or ARGV[1] < token or (ARGV[1] == token and ARGV[2] ~= claim) then
    return seen
  end
end
redis.call('MSET', KEYS[2], ARGV[1] .. '.' .. ARGV[2], KEYS[1], ARGV[3])
return false
