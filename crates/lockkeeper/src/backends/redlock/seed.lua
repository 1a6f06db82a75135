-- KEYS: node; ARGV: digest, highest number that a majority has seen, which rest is meant, whether it may be cut short (0 or 1)
-- returns: 1 if the node counts from now on
local node = redis.call('HMGET', KEYS[1], 'digest', 'floor', 'until', 'saved')
-- Emptied again since it was greeted: this seed is of an earlier rest.
if node[1] ~= ARGV[1] or node[2] or node[3] ~= ARGV[3] then
  return 0
end
local never_gave = ARGV[4] == '1' and tonumber(node[4]) == 0
if not never_gave and tonumber(node[3]) > now_ms() then
  return 0
end
redis.call('HSET', KEYS[1], 'floor', digits(tonumber(ARGV[2])))
redis.call('HDEL', KEYS[1], 'until', 'saved', 'since')
return 1
