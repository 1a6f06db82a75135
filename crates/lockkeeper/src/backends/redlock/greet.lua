-- KEYS: node; ARGV: digest, the set in words, writes each change to its disk before it answers (0 or 1), longest lease (ms)
-- returns: state (1 counts, 2 abstains, 3 may be seeded, 4 of another set, 5 may drop locks), time left (ms), highest number,
--   time (us), the other set or the policy in words, which rest this is
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local info = redis.call('INFO', 'server', 'replication', 'memory')
local run = info:match('run_id:(%w+)')
local policy = info:match('maxmemory_policy:([%w-]+)') or 'unknown'
-- A replica that takes its place would come without the last changes, whatever its own disk does.
local alone = info:find('role:master', 1, true) and info:find('connected_slaves:0', 1, true)
local keeps = ARGV[3] == '1' and alone and '1' or '0'
local node = redis.call('HMGET', KEYS[1], 'digest', 'run', 'floor', 'until', 'set', 'keeps')
local all = redis.call('HGETALL', KEYS[1])
local seen = 0
for i = 1, #all, 2 do
  if all[i] == 'floor' or all[i] == 'saved' or all[i]:find(':', 1, true) then
    seen = math.max(seen, tonumber(all[i + 1]))
  end
end

local function rest()
  node[3], node[4] = false, digits(now + tonumber(ARGV[4]))
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'digest', ARGV[1], 'set', ARGV[2], 'run', run, 'keeps', keeps,
    'saved', digits(seen), 'since', digits(now), 'until', node[4])
end

if node[1] and node[1] ~= ARGV[1] then
  return {4, 0, 0, 0, node[5] or 'unknown', ''}
end
-- What it does now says nothing about how it wrote before the restart: that is on record.
local kept = node[2] == run or (keeps == '1' and node[6] == '1')
if not node[1] or not kept or policy ~= 'noeviction' then
  rest()
else
  redis.call('HSET', KEYS[1], 'run', run, 'keeps', keeps)
end
local micros = time[1] * 1000000 + time[2]
if policy ~= 'noeviction' then
  return {5, 0, seen, micros, policy, ''}
end
if node[3] then
  return {1, 0, seen, micros, '', ''}
end
local wait = tonumber(node[4] or 0) - now
return {wait > 0 and 2 or 3, math.max(wait, 0), seen, micros, '', node[4] or ''}
