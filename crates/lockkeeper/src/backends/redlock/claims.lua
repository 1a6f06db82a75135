-- no arguments: what the verbs below share; put in front of each of them
-- lock:    id (16 bytes), order (16 digits), since (16 digits, ms), party; `since` is below 0 if the keeper said it
-- waiting: id -> end of lease (16 digits, ms), number (16), since (16), keeper (16 bytes), party
-- line:    ids of the waiting, in the order in which they are woken
-- flag:    is there as long as the line is
-- node:    `digest` of the set; `floor` while the node votes, and then counters: bucket:digest -> highest number (16 digits)
local MINE, TAKEN, UNKNOWN, ABSTAINS, UNLISTED, BLANK, FOREIGN = 1, 2, 3, 4, 5, 6, 7

local function digits(number)
  return string.format('%016.0f', number)
end

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function digest_of(counter)
  return counter:match(':(.*)')
end

local function prefix_of(node)
  return node:sub(1, -#':node' - 1)
end

-- The keys of the name that the lock is of.
local function names(lock, prefix)
  local name = lock:sub(#prefix + #':lock:' + 1)
  return {
    lock = lock,
    line = prefix .. ':line:' .. name,
    waiting = prefix .. ':wait:' .. name,
    flag = prefix .. ':flag:' .. name,
    channel = prefix .. ':wake:',
  }
end

-- The highest number that the node has seen for the names of one bucket.
local function highest(floor, counter)
  return math.max(tonumber(floor), tonumber(counter or 0))
end

local function is_mine(held, id)
  return held and held:sub(1, 16) == id
end

-- Whether the node answers for this claim's record. While it rests it does so only for what was put back since, by
-- its own clock: an older record came back with old data, and may have been taken out in what was lost.
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

-- Gives the lock to the claim; the number is stored if it is above all that were seen.
local function grant(node, counter, lock, claim)
  local order = 0
  if claim.offer > claim.seen then
    order = claim.offer
    redis.call('HSET', node, counter, digits(order))
  end
  local record = claim.id .. digits(order) .. digits(claim.now) .. claim.party
  redis.call('SET', lock, record, 'PX', claim.lease)
  return order
end

-- The keys of a queue outlive the longest lease in it, and no more.
local function write_entry(keys, claim, number, since)
  local entry = digits(claim.now + claim.lease) .. digits(number) .. digits(since)
  redis.call('HSET', keys.waiting, claim.id, entry .. claim.keeper .. claim.party)
  if redis.call('PTTL', keys.line) < claim.lease then
    redis.call('PEXPIRE', keys.line, claim.lease)
    redis.call('PEXPIRE', keys.waiting, claim.lease)
    redis.call('SET', keys.flag, '', 'PX', claim.lease)
  end
end

-- The claim waits here; one that does already keeps its number. Returns the highest number seen.
local function line_up(node, counter, keys, claim)
  local entry = redis.call('HGET', keys.waiting, claim.id)
  if entry then
    write_entry(keys, claim, tonumber(entry:sub(17, 32)), tonumber(entry:sub(33, 48)))
    return claim.seen
  end
  local number = math.max(claim.offer, claim.seen + 1)
  redis.call('HSET', node, counter, digits(number))
  redis.call('ZADD', keys.line, number, claim.id)
  write_entry(keys, claim, number, claim.now)
  return number
end

local function strike(keys, id)
  redis.call('ZREM', keys.line, id)
  return redis.call('HDEL', keys.waiting, id) == 1
end

-- The first in line whose lease has not ended; the dead before it are struck off.
local function first_alive(keys, now)
  while true do
    local id = redis.call('ZRANGE', keys.line, 0, 0)[1]
    if not id then
      return nil
    end
    local entry = redis.call('HGET', keys.waiting, id)
    if entry and tonumber(entry:sub(1, 16)) > now then
      return id, entry
    end
    strike(keys, id)
  end
end

-- Tells one waiter, whose turn then comes last: one that is deaf or stopped swallows one wake, not all.
local function wake_one(keys, now)
  for _ = 1, 16 do
    local id, entry = first_alive(keys, now)
    if not id then
      return
    end
    local last = redis.call('ZRANGE', keys.line, -1, -1, 'WITHSCORES')
    if last[1] ~= id then
      redis.call('ZADD', keys.line, last[2] + 1, id)
    end
    if redis.call('PUBLISH', keys.channel .. entry:sub(49, 64), id) > 0 then
      return
    end
  end
end

-- Puts the flag back that a release has deleted, or takes it away from a line that has ended.
local function mark(keys)
  local lasts = redis.call('PTTL', keys.line)
  if lasts > 0 then
    redis.call('SET', keys.flag, '', 'PX', lasts)
  else
    redis.call('DEL', keys.flag)
  end
end

-- Takes the claim out, holding or waiting, and wakes somebody if it held; `deleted` if its lock and a flag are gone already.
local function take_out(keys, id, deleted)
  local held = deleted
  if not deleted then
    held = is_mine(redis.call('GET', keys.lock), id) and redis.call('DEL', keys.lock)
    if not redis.call('ZRANGE', keys.line, 0, 0)[1] then
      return held and 1 or 0
    end
  end
  local waited = strike(keys, id)
  local now = now_ms()
  if held then
    wake_one(keys, now)
  else
    first_alive(keys, now)
  end
  mark(keys)
  return (held or waited) and 1 or 0
end
