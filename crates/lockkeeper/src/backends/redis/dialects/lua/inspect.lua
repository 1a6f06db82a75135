-- KEYS: the locks to look at; ARGV: own, "some" if a lock that cannot be read is left out
local function view(key)
  local lock = lock_at(key)
  purge(lock)
  local free = redis.call('EXISTS', lock.key) == 0
  local claims, held_by_us = {}, false
  for place, id in ipairs(redis.call('ZRANGE', lock.line, 0, -1)) do
    local claim = read(lock, id)
    local owned = not free and place == 1 and gate.owned_by(lock.key, id)
    if claim and (owned or not claim.held) then
      held_by_us = held_by_us or owned
      local order = tonumber(redis.call('ZSCORE', lock.line, id))
      local left = redis.call('ZSCORE', lock.ends, id) - now
      table.insert(claims, { order, owned and 1 or 0, now - claim.since, left, claim.party })
    end
  end
  local stranger = {}
  if not free and not held_by_us then
    stranger = { number_of_stranger(lock), redis.call('PTTL', lock.key) }
  end
  return { lock.key, stranger, claims }
end

local views = {}
for _, key in ipairs(KEYS) do
  local fine, told = pcall(view, key)
  if fine then
    table.insert(views, told)
  elseif ARGV[2] == 'some' then
    only_tampered(told)
  else
    raise(told)
  end
end
return views
