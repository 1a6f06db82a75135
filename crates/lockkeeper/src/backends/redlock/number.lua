-- KEYS: node, lock; ARGV: digest, bucket, id, number
-- returns: what the node says, order, highest number seen, 0; the number is stored if it is above all that were seen
local node = redis.call('HMGET', KEYS[1], 'digest', 'floor', ARGV[2])
local held = redis.call('GET', KEYS[2])
if node[1] ~= ARGV[1] or not node[2] or not is_mine(held, ARGV[3]) then
  return {UNKNOWN, 0, 0, 0}
end
local number = tonumber(ARGV[4])
local seen = highest(node[2], node[3])
if number <= seen then
  return {MINE, order_of(held), seen, 0}
end
redis.call('HSET', KEYS[1], ARGV[2], digits(number))
redis.call('SET', KEYS[2], held:sub(1, 16) .. digits(number) .. held:sub(33), 'KEEPTTL')
return {MINE, number, number, 0}
