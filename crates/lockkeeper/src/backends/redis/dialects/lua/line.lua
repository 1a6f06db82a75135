-- ARGV: where our own keys begin, then what the verb says
-- The lockkeepers' own line in front of a lock that strangers share. Its head alone asks the gate, so
-- that the order numbers of grants rise, and nobody but the head has to look again.
local own = ARGV[1]
local names = own .. 'names'
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)

local function digits(number)
  return string.format('%.0f', number)
end

-- Raises again what pcall caught, with the server's own code first.
local function raise(failure)
  error(type(failure) == 'table' and failure or { err = failure })
end

-- Raises it again unless somebody wrote other data where a lock or its line should be: a full server, say, has
-- lost nothing.
local function only_tampered(failure)
  local text = type(failure) == 'table' and failure.err or failure
  local stumbled_over_data = string.find(text, '^@?user_script:')
  if not stumbled_over_data and not string.find(text, '^WRONGTYPE') then
    raise(failure)
  end
end

-- The lock at this key, with the keys of our own that belong to it.
local function lock_at(key)
  return {
    key = key,
    line = own .. 'line:' .. key,
    ends = own .. 'ends:' .. key,
    claims = own .. 'claims:' .. key,
  }
end

local function read(lock, id)
  local text = redis.call('HGET', lock.claims, id)
  if not text then
    return nil
  end
  local held, since, keeper, party = string.match(text, '^(%d) (%d+) (%S+) (.*)$')
  return { held = held == '1', since = tonumber(since), keeper = keeper, party = party }
end

local function write(lock, id, claim)
  local held = claim.held and '1' or '0'
  local text = table.concat({ held, digits(claim.since), claim.keeper, claim.party }, ' ')
  redis.call('HSET', lock.claims, id, text)
end

local function head_of(lock)
  return redis.call('ZRANGE', lock.line, 0, 0)[1]
end

-- Tells the head that its turn may have come, unless it is who asks.
local function wake_head(lock, asker)
  local head = head_of(lock)
  local claim = head and head ~= asker and read(lock, head)
  if claim and not claim.held then
    redis.call('PUBLISH', own .. 'wake:' .. claim.keeper, head)
  end
end

local function leave(lock, id)
  redis.call('ZREM', lock.line, id)
  redis.call('ZREM', lock.ends, id)
  redis.call('HDEL', lock.claims, id)
  if redis.call('EXISTS', lock.line) == 0 then
    redis.call('ZREM', names, lock.key)
  end
end

-- Takes out whose lease has ended.
local function purge(lock, asker)
  local dead = redis.call('ZRANGEBYSCORE', lock.ends, '-inf', now)
  if #dead == 0 then
    return
  end
  local head = head_of(lock)
  for _, id in ipairs(dead) do
    leave(lock, id)
  end
  if head_of(lock) ~= head then
    wake_head(lock, asker)
  end
end

-- The claim's lease starts anew. Nothing of ours outlives the last lease.
local function stays(lock, id, lease)
  redis.call('ZADD', lock.ends, now + lease, id)
  redis.call('ZADD', names, 'GT', now + lease, lock.key)
  for _, key in ipairs({ lock.line, lock.ends, lock.claims, names }) do
    if redis.call('PTTL', key) < lease then
      redis.call('PEXPIRE', key, lease)
    end
  end
end

local GONE, HOLDS, WAITS = 0, 1, 2

-- The standing of a claim that is not the head, or is it in front of a stranger's lock.
local function waits(lock, rank, free)
  if rank == 0 then
    return { WAITS, 1, redis.call('PTTL', lock.key), 1 }
  end
  local claim = read(lock, head_of(lock))
  local stranger = not free and not (claim and claim.held)
  local first_end = redis.call('ZRANGE', lock.ends, 0, 0, 'WITHSCORES')[2]
  return { WAITS, rank + (stranger and 1 or 0), first_end - now, 0 }
end

-- Starts the lease of a claim anew and tells where it stands: it takes the lock when the lock is free
-- and it is the head. A hold that is not there any more, whoever took it away, is gone for good.
local function renewed(lock, id, lease)
  local claim = read(lock, id)
  local order = redis.call('ZSCORE', lock.line, id)
  if not (claim and order) then
    leave(lock, id)
    return { GONE }
  end
  local free = redis.call('EXISTS', lock.key) == 0
  local rank = redis.call('ZRANK', lock.line, id)
  -- Also fails on a key that is no lock of this dialect, which nobody should wait for.
  local owned = gate.owned_by(lock.key, id)
  if claim.held and not owned then
    leave(lock, id)
    wake_head(lock)
    return { GONE }
  end
  stays(lock, id, lease)
  if claim.held then
    redis.call('PEXPIRE', lock.key, lease)
    return { HOLDS, tonumber(order), lease }
  end
  if rank > 0 or not free then
    return waits(lock, rank, free)
  end
  gate.take(lock.key, id, lease)
  claim.held, claim.since = true, now
  write(lock, id, claim)
  return { HOLDS, tonumber(order), lease }
end

-- What stands for a stranger's order number, which it has none: far below all of ours.
local function number_of_stranger(lock)
  return tonumber(string.sub(redis.sha1hex(gate.secret(lock.key)), 1, 8), 16) + 1
end
