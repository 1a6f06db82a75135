-- The server's time in microseconds, exact in a double.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

