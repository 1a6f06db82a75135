-- KEYS: a key that nobody uses. ARGV: a channel that nobody hears. Returns the commands that this user may not run.
-- A script that may not run its last command has still run the others, so this is found out before there is a lock.
local missing = {}
local function may(...)
  local told = redis.pcall(...)
  local why = type(told) == 'table' and told.err or ''
  for _, refusal in ipairs({ 'NOPERM', 'The user executing the script', 'ACL failure in script' }) do
    if string.find(why, refusal, 1, true) then
      missing[#missing + 1] = (...)
      return
    end
  end
end

local key = KEYS[1]
may('TIME')
may('EXISTS', key)
may('SET', key, '1', 'PX', 1000)
may('GET', key)
may('INCR', key)
may('DEL', key)
may('HSET', key, 'a', '1')
may('HGET', key, 'a')
may('HSETNX', key, 'a', '1')
may('HGETALL', key)
may('PEXPIRE', key, 1000)
may('PEXPIREAT', key, 1, 'GT')
may('PEXPIRETIME', key)
may('HDEL', key, 'a')
may('ZADD', key, 1, 'a')
may('ZRANK', key, 'a')
may('ZSCORE', key, 'a')
may('ZCARD', key)
may('ZRANGE', key, 0, 0)
may('ZRANGEBYSCORE', key, 0, 0)
may('ZREM', key, 'a')
may('LPUSH', key, 'a')
may('LTRIM', key, 1, 0)
may('PUBLISH', ARGV[1], '')
redis.pcall('DEL', key)
return missing
