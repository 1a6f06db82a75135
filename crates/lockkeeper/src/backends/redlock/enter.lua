-- KEYS: lock, node; ARGV: record, lease (ms), counter, offer, the keeper if the claim waits where it must
-- returns: what the node says, order, highest number seen, time left to whoever has it (ms)
local node = redis.call('HMGET', KEYS[2], 'digest', 'floor', ARGV[3], 'since')
if node[1] ~= digest_of(ARGV[3]) then
  return {node[1] and FOREIGN or BLANK, 0, 0, 0}
end
local id = ARGV[1]:sub(1, 16)
local held = redis.call('GET', KEYS[1])
if stands_by(held, id, node[2], node[4]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {MINE, order_of(held), 0, 0}
end
if not node[2] then
  return {ABSTAINS, 0, 0, 0}
end
local claim = {
  id = id,
  lease = tonumber(ARGV[2]),
  offer = tonumber(ARGV[4]),
  seen = highest(node[2], node[3]),
  keeper = ARGV[5],
  party = ARGV[1]:sub(49),
  now = now_ms(),
}
if not held then
  local order = grant(KEYS[2], ARGV[3], KEYS[1], claim)
  return {MINE, order, math.max(order, claim.seen), 0}
end
local seen = claim.seen
if claim.keeper then
  seen = line_up(KEYS[2], ARGV[3], names(KEYS[1], prefix_of(KEYS[2])), claim)
end
return {TAKEN, order_of(held), seen, left(KEYS[1])}
