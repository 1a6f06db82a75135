-- KEYS: lock, node; ARGV: id, counter, lease (ms), order, party
-- returns: 1 if a holder's claim was put back; also on a node that abstains, since it is the one it may have forgotten
local node = redis.call('HMGET', KEYS[2], 'digest', 'floor', ARGV[2])
if node[1] ~= digest_of(ARGV[2]) then
  return 0
end
local order = tonumber(ARGV[4])
-- Its own record from before a rest is no longer believed, and is written anew.
local held = redis.call('GET', KEYS[1])
if held and (node[2] or not is_mine(held, ARGV[1])) then
  return 0
end
local record = ARGV[1] .. digits(order) .. digits(now_ms()) .. ARGV[5]
redis.call('SET', KEYS[1], record, 'PX', ARGV[3])
if node[2] and order > highest(node[2], node[3]) then
  redis.call('HSET', KEYS[2], ARGV[2], digits(order))
end
return 1
