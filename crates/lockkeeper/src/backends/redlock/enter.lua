-- KEYS: node, lock, line, waiting; ARGV: digest, bucket, id, lease (ms), offer, waits (0 or 1), keeper, party
-- returns: what the node says, order, highest number seen, time left to whoever has it (ms)
local node = redis.call('HMGET', KEYS[1], 'digest', 'floor', ARGV[2], 'since')
if node[1] ~= ARGV[1] then
  return {node[1] and FOREIGN or BLANK, 0, 0, 0}
end
local held = redis.call('GET', KEYS[2])
if stands_by(held, ARGV[3], node[2], node[4]) then
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
  return {MINE, order_of(held), 0, 0}
end
if not node[2] then
  return {ABSTAINS, 0, 0, 0}
end
local claim = {
  id = ARGV[3],
  lease = tonumber(ARGV[4]),
  offer = tonumber(ARGV[5]),
  seen = highest(node[2], node[3]),
  keeper = ARGV[7],
  party = ARGV[8],
  now = now_ms(),
}
if not held then
  local order = grant(KEYS[1], ARGV[2], KEYS[2], claim)
  return {MINE, order, math.max(order, claim.seen), 0}
end
local seen = claim.seen
if ARGV[6] == '1' then
  seen = line_up(KEYS[1], ARGV[2], KEYS[3], KEYS[4], claim)
end
return {TAKEN, order_of(held), seen, left(KEYS[2])}
