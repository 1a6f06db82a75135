-- KEYS: lock, node; ARGV: id, counter, number
-- returns: what the node says, order, highest number seen, 0; the number is stored if it is above all that were seen
local node = redis.call('HMGET', KEYS[2], 'digest', 'floor', ARGV[2])
local held = redis.call('GET', KEYS[1])
if node[1] ~= digest_of(ARGV[2]) or not node[2] or not is_mine(held, ARGV[1]) then
  return {UNKNOWN, 0, 0, 0}
end
local number = tonumber(ARGV[3])
local seen = highest(node[2], node[3])
if number <= seen then
  return {MINE, order_of(held), seen, 0}
end
redis.call('HSET', KEYS[2], ARGV[2], digits(number))
redis.call('SET', KEYS[1], held:sub(1, 16) .. digits(number) .. held:sub(33), 'KEEPTTL')
return {MINE, number, number, 0}
