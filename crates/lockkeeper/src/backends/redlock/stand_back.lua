-- KEYS: lock, node; ARGV: id, counter, lease (ms), keeper, party
-- returns: 1 if the lock was given back; the claim goes on waiting here, and nobody is woken
if not is_mine(redis.call('GET', KEYS[1]), ARGV[1]) then
  return 0
end
redis.call('DEL', KEYS[1])
local node = redis.call('HMGET', KEYS[2], 'digest', 'floor', ARGV[2])
if node[1] == digest_of(ARGV[2]) and node[2] then
  line_up(KEYS[2], ARGV[2], names(KEYS[1], prefix_of(KEYS[2])), {
    id = ARGV[1],
    lease = tonumber(ARGV[3]),
    offer = 0,
    seen = highest(node[2], node[3]),
    keeper = ARGV[4],
    party = ARGV[5],
    now = now_ms(),
  })
end
return 1
