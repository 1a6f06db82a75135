-- KEYS: the lock; ARGV: own, id
local id = ARGV[2]
local lock = lock_at(KEYS[1])
local owned = gate.owned_by(lock.key, id)
purge(lock, id)
local claim = read(lock, id)
local head = head_of(lock)
if owned then
  gate.free(lock.key)
end
leave(lock, id)
if head == id then
  wake_head(lock)
end
-- A hold that was lost has nothing to free; a waiter leaves its place.
return (owned or (claim and not claim.held)) and 1 or 0
