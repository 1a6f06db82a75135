-- KEYS: node, then the lock of each claim; ARGV: digest, then for each claim id, counter, lease (ms), offer
-- returns: for each claim what the node says, order, highest number seen, time left to whoever has it (ms)
local node = redis.call('HMGET', KEYS[1], 'digest', 'floor', 'since')
local now = now_ms()
local told = {}

local function tell(says, order, seen, ttl)
  local n = #told
  told[n + 1], told[n + 2], told[n + 3], told[n + 4] = says, order, seen, ttl
end

local function waits(keys, held, entry, i)
  local claim = {
    id = ARGV[i],
    lease = tonumber(ARGV[i + 2]),
    offer = tonumber(ARGV[i + 3]),
    seen = highest(node[2], redis.call('HGET', KEYS[1], ARGV[i + 1])),
    keeper = entry:sub(49, 64),
    party = entry:sub(65),
    now = now,
  }
  write_entry(keys, claim, tonumber(entry:sub(17, 32)), tonumber(entry:sub(33, 48)))
  if held then
    return tell(TAKEN, order_of(held), claim.seen, left(keys.lock))
  end
  local order = grant(KEYS[1], ARGV[i + 1], keys.lock, claim)
  tell(MINE, order, math.max(order, claim.seen), 0)
end

local function renew(lock, i)
  local held = redis.call('GET', lock)
  if stands_by(held, ARGV[i], node[2], node[3]) then
    redis.call('PEXPIRE', lock, ARGV[i + 2])
    return tell(MINE, order_of(held), 0, 0)
  end
  if not node[2] then
    return tell(ABSTAINS, held and not is_mine(held, ARGV[i]) and 1 or 0, 0, 0)
  end
  local keys = names(lock, prefix_of(KEYS[1]))
  local entry = redis.call('HGET', keys.waiting, ARGV[i])
  if entry and tonumber(entry:sub(1, 16)) > now then
    return waits(keys, held, entry, i)
  end
  if held then
    return tell(UNLISTED, order_of(held), 0, left(lock))
  end
  tell(UNKNOWN, 0, 0, 0)
end

for k = 2, #KEYS do
  if node[1] == ARGV[1] then
    renew(KEYS[k], 2 + (k - 2) * 4)
  else
    tell(node[1] and FOREIGN or BLANK, 0, 0, 0)
  end
end
return told
