-- no arguments: what the verbs below share; put in front of each of them
-- lock:    id (16 bytes), order (16 digits), since (16 digits, ms), party
-- waiting: id -> end of lease (16 digits, ms), number (16), since (16), keeper (16 bytes), party
-- line:    ids of the waiting, in the order in which they are woken
local MINE, TAKEN, UNKNOWN, ABSTAINS, UNLISTED, BLANK, FOREIGN = 1, 2, 3, 4, 5, 6, 7

local function digits(number)
  return string.format('%016.0f', number)
end

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The highest number that the node has seen for the names of one bucket.
local function highest(floor, bucket)
  return math.max(tonumber(floor), tonumber(bucket or 0))
end

local function is_mine(held, id)
  return held and held:sub(1, 16) == id
end

-- Whether the node answers for this claim's record. While it rests it does so only for what was put back since: an
-- older record came back with old data, and may have been taken out in what was lost.
local function stands_by(held, id, floor, since)
  return is_mine(held, id) and (floor or (since and tonumber(held:sub(33, 48)) >= tonumber(since)))
end

-- 0 for the value of another library on the same key, which has no number.
local function order_of(held)
  local order = held:sub(17, 32)
  return order:find('^%d+$') and tonumber(order) or 0
end

local function left(lock)
  return math.max(redis.call('PTTL', lock), 1)
end

-- A queue's key outlives the longest lease in it, and no more.
local function keep(key, lease)
  if redis.call('PTTL', key) < lease then
    redis.call('PEXPIRE', key, lease)
  end
end

-- Gives the lock to the claim; the number is stored if it is above all that were seen.
local function grant(node, bucket, lock, claim)
  local order = 0
  if claim.offer > claim.seen then
    order = claim.offer
    redis.call('HSET', node, bucket, digits(order))
  end
  local record = claim.id .. digits(order) .. digits(claim.now) .. claim.party
  redis.call('SET', lock, record, 'PX', claim.lease)
  return order
end

local function write_entry(line, waiting, claim, number, since)
  local entry = digits(claim.now + claim.lease) .. digits(number) .. digits(since)
  redis.call('HSET', waiting, claim.id, entry .. claim.keeper .. claim.party)
  keep(waiting, claim.lease)
  keep(line, claim.lease)
end

-- The claim waits here; one that does already keeps its number. Returns the highest number seen.
local function line_up(node, bucket, line, waiting, claim)
  local entry = redis.call('HGET', waiting, claim.id)
  if entry then
    write_entry(line, waiting, claim, tonumber(entry:sub(17, 32)), tonumber(entry:sub(33, 48)))
    return claim.seen
  end
  local number = math.max(claim.offer, claim.seen + 1)
  redis.call('HSET', node, bucket, digits(number))
  redis.call('ZADD', line, number, claim.id)
  write_entry(line, waiting, claim, number, claim.now)
  return number
end

local function strike(line, waiting, id)
  redis.call('ZREM', line, id)
  return redis.call('HDEL', waiting, id) == 1
end

-- The first in line whose lease has not ended; the dead before it are struck off.
local function first_alive(line, waiting, now)
  while true do
    local id = redis.call('ZRANGE', line, 0, 0)[1]
    if not id then
      return nil
    end
    local entry = redis.call('HGET', waiting, id)
    if entry and tonumber(entry:sub(1, 16)) > now then
      return id, entry
    end
    strike(line, waiting, id)
  end
end

-- Tells one waiter, whose turn then comes last: one that is deaf or stopped swallows one wake, not all.
local function wake_one(line, waiting, channel, now)
  for _ = 1, 16 do
    local id, entry = first_alive(line, waiting, now)
    if not id then
      return
    end
    local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')
    redis.call('ZADD', line, last[2] + 1, id)
    if redis.call('PUBLISH', channel .. entry:sub(49, 64), id) > 0 then
      return
    end
  end
end

-- Takes the claim out, holding or waiting, and wakes somebody if it held.
local function take_out(lock, line, waiting, id, channel)
  local held = is_mine(redis.call('GET', lock), id)
  if held then
    redis.call('DEL', lock)
  end
  if not redis.call('ZRANGE', line, 0, 0)[1] then
    return held and 1 or 0
  end
  local waited = strike(line, waiting, id)
  local now = now_ms()
  if held then
    wake_one(line, waiting, channel, now)
  else
    first_alive(line, waiting, now)
  end
  return (held or waited) and 1 or 0
end
