-- KEYS: lock, line, waiting, broken; ARGV: id, channel, what was broken and why
-- returns: 1 if the claim held or waited here
local told = take_out(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2])
if told == 1 then
  redis.call('LPUSH', KEYS[4], ARGV[3])
  redis.call('LTRIM', KEYS[4], 0, 999)
end
return told
