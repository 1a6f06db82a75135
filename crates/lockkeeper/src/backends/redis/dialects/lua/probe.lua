-- KEYS: a key that nobody uses; ARGV: our channel, then the strangers' if they have any, that nobody hears
-- Returns what this user lacks, as its ACL would say it. A script that may not run its last command has still
-- run the others, so this is found out before there is a lock.
local lacks = {}
local function may(right, ...)
  local told = redis.pcall(...)
  local why = type(told) == 'table' and told.err or ''
  for _, refusal in ipairs({ 'NOPERM', 'The user executing the script', 'ACL failure in script' }) do
    if string.find(why, refusal, 1, true) then
      table.insert(lacks, right)
      return false
    end
  end
  return true
end

local key = KEYS[1]
for _, command in ipairs({
  { 'TIME' },
  { 'EXISTS', key },
  { 'SET', key, '1', 'PX', 1000 },
  { 'GET', key },
  { 'PEXPIRE', key, 1000 },
  { 'PTTL', key },
  { 'DEL', key },
  { 'HSET', key, 'a', '1' },
  { 'HGET', key, 'a' },
  { 'HEXISTS', key, 'a' },
  { 'HKEYS', key },
  { 'HDEL', key, 'a' },
  { 'ZADD', key, 1, 'a' },
  { 'ZRANK', key, 'a' },
  { 'ZSCORE', key, 'a' },
  { 'ZRANGE', key, 0, 0 },
  { 'ZRANGEBYSCORE', key, 0, 0 },
  { 'ZREMRANGEBYSCORE', key, 0, 0 },
  { 'ZSCAN', key, 0 },
  { 'ZREM', key, 'a' },
  { 'LPUSH', key, 'a' },
  { 'LTRIM', key, 1, 0 },
}) do
  may('+' .. string.lower(command[1]), unpack(command))
end
-- Whatever of it a user could write but not take away.
for _, undo in ipairs({ { 'DEL', key }, { 'HDEL', key, 'a' }, { 'ZREM', key, 'a' }, { 'PEXPIRE', key, 1000 } }) do
  redis.pcall(unpack(undo))
end
if may('+publish', 'PUBLISH', ARGV[1], '') and ARGV[2] then
  may('&redisson_lock__channel:*', 'PUBLISH', ARGV[2], '')
end
return lacks
