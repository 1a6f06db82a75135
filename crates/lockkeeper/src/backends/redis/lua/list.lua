-- Shared by the scripts of all verbs, below what each does first and names.lua. Needs: now, the server's time in microseconds.
local now_ms = math.floor(now / 1000)
local HEAD = 'a list of claims '

local function is_list(held)
  return string.sub(held, 1, 17) == HEAD
end

-- The rule, as in rule.rs: whether a claim that is next after all holders holds too.
local function fits(list, mode)
  if list.holders == 0 then
    return true
  end
  if mode == 'x' or string.sub(mode, 1, 1) ~= list.kind then
    return false
  end
  if mode == 's' then
    return true
  end
  local take, of = string.match(mode, '^p(%d+)%.(%d+)$')
  return list.permits + take <= tonumber(of)
end

-- What `pcall` caught: servers differ in whether that is a table or its text. An error is raised again as a table,
-- because a mere text would lose its code.
local function reason(caught)
  return type(caught) == 'table' and caught.err or tostring(caught)
end

local function permits_of(mode)
  return tonumber(string.match(mode, '^p(%d+)%.') or 0)
end

local function join(list, mode)
  list.holders = list.holders + 1
  list.kind = string.sub(mode, 1, 1)
  list.permits = list.permits + permits_of(mode)
end

-- A claim that is alone: its id, order, mode and channel.
local function alone(held)
  local order, mode, channel = parse(string.sub(held, 17))
  if not order then
    error({ err = 'WRONGTYPE the value at the key is no claim' })
  end
  return string.sub(held, 1, 16), order, mode, channel
end

local function list_at(claims)
  local list = { claims = claims }
  list.records, list.queue, list.ends = names(claims)
  return list
end

-- All keys are read before the first is written: while a slot moves between nodes of a cluster a part of them
-- may be elsewhere, and then nothing must have been changed.
local function open(claims, head)
  local list = list_at(claims)
  list.count = redis.call('ZCARD', list.queue)
  list.first_dies = tonumber(redis.call('ZRANGE', list.ends, 0, 0, 'WITHSCORES')[2])
  if list.count == 0 or not list.first_dies or redis.call('EXISTS', list.records) == 0 then
    error({ err = 'TRYAGAIN a part of the list is elsewhere' })
  end
  local holders, kind, permits, lasts, safe = string.match(head, '^(%d+) (%a) (%d+) (%d+) (%d+)$', #HEAD + 1)
  list.holders, list.kind, list.permits = tonumber(holders), kind, tonumber(permits)
  list.lasts, list.safe = tonumber(lasts), tonumber(safe)
  list.head = head
  return list
end

-- Makes a list of a claim that was alone. Its new keys have no expiry yet: `keep_keys` gives them one. An expiry
-- that is now, as of a claim in its last millisecond, would delete them on the spot.
local function unfold(claims, held)
  local list = list_at(claims)
  local id, order, mode = alone(held)
  local ends = redis.call('PEXPIRETIME', claims)
  list.count, list.holders, list.kind, list.permits, list.lasts, list.safe = 1, 0, 'x', 0, 0, ends
  join(list, mode)
  list.first_order, list.first_end = order, ends
  list.unfold = function()
    -- Left behind by a list whose head somebody deleted, or the server dropped for want of memory: nobody holds by it.
    redis.call('DEL', list.records, list.queue, list.ends)
    redis.call('HSET', list.records, id, string.sub(held, 17))
    redis.call('ZADD', list.queue, order, id)
    redis.call('ZADD', list.ends, ends, id)
  end
  return list
end

-- A lease in the list starts anew. The keys outlive the longest lease in them by up to half of it, so that not every claim has
-- to prolong them.
local function keep_keys(list, lease)
  list.safe = math.min(list.safe, now_ms + lease)
  local ends = math.max(now_ms + lease, list.first_end or 0)
  if ends <= list.lasts then
    return
  end
  list.lasts = ends + math.ceil(lease / 2)
  for _, key in ipairs({ list.claims, list.records, list.queue, list.ends }) do
    redis.call('PEXPIREAT', key, string.format('%.0f', list.lasts))
  end
end

-- Keys vanish with their last member, and in a slot that moves no command may touch a key that is not there: so
-- the last claim takes all keys along, and whoever comes after this looks at the count first.
local function strike(list, id)
  list.count = list.count - 1
  if list.count == 0 then
    redis.call('DEL', list.claims, list.records, list.queue, list.ends)
    return
  end
  -- First what needs no memory, so that a full server still lets go.
  redis.call('ZREM', list.queue, id)
  redis.call('ZREM', list.ends, id)
  redis.call('HDEL', list.records, id)
end

local function take_out(list, id)
  local place = list.count > 0 and redis.call('ZRANK', list.queue, id)
  if not place then
    return false
  end
  if place < list.holders then
    list.holders = list.holders - 1
    if list.permits > 0 then
      local record = redis.call('HGET', list.records, id)
      list.permits = list.permits - (record and permits_of(select(2, parse(record))) or 0)
    end
  end
  strike(list, id)
  return true
end

local function bury(list)
  if list.first_dies > now_ms then
    return
  end
  while list.count > 0 do
    local dead = redis.call('ZRANGEBYSCORE', list.ends, '-inf', now_ms, 'LIMIT', 0, 100)
    for _, id in ipairs(dead) do
      if not take_out(list, id) and list.count > 0 then
        -- Somebody took it out of the queue behind our back.
        redis.call('ZREM', list.ends, id)
      end
    end
    if #dead < 100 then
      return
    end
  end
end

-- Nobody dies before the first lease ends. The head is written for this, so it is only for those who have written something
-- that needs no memory: a full server refuses the first write only.
local function look_ahead(list)
  if list.count > 0 and list.safe <= now_ms then
    list.safe = tonumber(redis.call('ZRANGE', list.ends, 0, 0, 'WITHSCORES')[2]) or list.safe
  end
end

local function store(list)
  if list.count == 0 then
    return
  end
  local head = string.format('%s%d %s %d %.0f %.0f', HEAD, list.holders, list.kind, list.permits, list.lasts, list.safe)
  if head == list.head then
    return
  end
  local told = redis.pcall('SET', list.claims, head, 'KEEPTTL')
  if told.err then
    -- The old head would count somebody as a holder who is none. Without its queue nobody holds by this list, and
    -- it ends with its longest lease.
    redis.call('DEL', list.queue)
    error(told)
  end
  list.head = head
end

-- Lets in whoever the rule now lets in, and tells each.
local function promote(list)
  local wakes = {}
  while list.count > list.holders and not (list.holders > 0 and list.kind == 'x') do
    local id = redis.call('ZRANGE', list.queue, list.holders, list.holders)[1]
    local record = redis.call('HGET', list.records, id)
    if not record then
      -- Somebody took it away behind our back: nobody can hold by it.
      strike(list, id)
    else
      local order, mode, channel = parse(record)
      if not fits(list, mode) then
        break
      end
      join(list, mode)
      wakes[#wakes + 1] = { channel, id .. string.format('%.0f', order) }
    end
  end
  store(list)
  for _, wake in ipairs(wakes) do
    -- A wake that is refused is like one that is lost: its claim looks by itself.
    redis.pcall('PUBLISH', wake[1], wake[2])
  end
end

-- Gone: 0, 0, 0. Holds: 1, order, lease left. Waits: 2, how many are ahead, how long the one just ahead surely lives.
local function standing(list, id)
  local place = list.count > 0 and redis.call('ZRANK', list.queue, id)
  if not place then
    return 0, 0, 0
  end
  if place < list.holders then
    local ends = redis.call('ZSCORE', list.ends, id)
    return 1, tonumber(redis.call('ZSCORE', list.queue, id)), ends - now_ms
  end
  local before = redis.call('ZRANGE', list.queue, place - 1, place - 1)[1]
  return 2, place, redis.call('ZSCORE', list.ends, before) - now_ms
end

-- The lease of a claim that is in the list starts anew.
local function renew(list, id, lease)
  -- First an expiry, which needs no memory: a full server refuses the first write only.
  redis.call('PEXPIREAT', list.ends, string.format('%.0f', math.max(list.lasts, now_ms + lease)))
  redis.call('ZADD', list.ends, 'XX', string.format('%.0f', now_ms + lease), id)
  look_ahead(list)
  keep_keys(list, lease)
  store(list)
end
