-- KEYS: node, lock, line, waiting; ARGV: digest, bucket, id, lease (ms), keeper, party
-- returns: 1 if the lock was given back; the claim goes on waiting here, and nobody is woken
if not is_mine(redis.call('GET', KEYS[2]), ARGV[3]) then
  return 0
end
redis.call('DEL', KEYS[2])
local node = redis.call('HMGET', KEYS[1], 'digest', 'floor', ARGV[2])
if node[1] == ARGV[1] and node[2] then
  line_up(KEYS[1], ARGV[2], KEYS[3], KEYS[4], {
    id = ARGV[3],
    lease = tonumber(ARGV[4]),
    offer = 0,
    seen = highest(node[2], node[3]),
    keeper = ARGV[5],
    party = ARGV[6],
    now = now_ms(),
  })
end
return 1
