-- KEYS: lock, broken; ARGV: id, prefix, what was broken and why
-- returns: 1 if the claim held or waited here
local told = take_out(names(KEYS[1], ARGV[2]), ARGV[1], false)
if told == 1 then
  redis.call('LPUSH', KEYS[2], ARGV[3])
  redis.call('LTRIM', KEYS[2], 0, 999)
end
return told
