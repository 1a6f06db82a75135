-- KEYS: claims of the name, last order of its bucket. ARGV: id, the rest of the record (" mode channel party..."), lease
-- in ms, "try" if it must not wait. Returns the order of a claim that holds for its whole lease, else its standing.
-- The quick way: nobody has the name. The claim is then a plain value, and the key's expiry is its lease.
local time = redis.call('TIME')
local id, micros = ARGV[1], time[1] .. string.sub('00000' .. time[2], -6)
local held = redis.call('SET', KEYS[1], id .. micros .. ARGV[2], 'NX', 'GET', 'PX', ARGV[3])

-- Numbers in order of time, and rising whatever the clock does; as text.
local function next_order()
  local last = tonumber(redis.call('SET', KEYS[2], micros, 'GET'))
  if not last or last < tonumber(micros) then
    return micros
  end
  local order = string.format('%.0f', last + 1)
  redis.call('SET', KEYS[2], order)
  return order
end

local function number_alone()
  local fine, order = pcall(next_order)
  if not fine then
    redis.call('DEL', KEYS[1])
    error(type(order) == 'table' and order or { err = order })
  end
  if order ~= micros then
    redis.call('SET', KEYS[1], id .. order .. ARGV[2], 'PX', ARGV[3])
  end
  return tonumber(order)
end

if not held then
  return number_alone()
end
local now, lease = tonumber(micros), tonumber(ARGV[3])

