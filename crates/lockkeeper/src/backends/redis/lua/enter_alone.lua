-- KEYS: claims of the name, last order of its bucket. ARGV: the claim, which is its id, 16 bytes for its order and the rest
-- of the record (" mode channel party..."); lease in ms; "try" if it must not wait. Returns the order of a claim that holds
-- for its whole lease, else its standing.
-- The quick way: nobody has the name. The claim is then a plain value, and the key's expiry is its lease.
local time = redis.call('TIME')
local id, rest, micros = string.sub(ARGV[1], 1, 16), string.sub(ARGV[1], 33), time[2]
if #micros < 6 then
  micros = string.sub('00000' .. micros, -6)
end
micros = time[1] .. micros
local held = redis.call('SET', KEYS[1], id .. micros .. rest, 'NX', 'GET', 'PX', ARGV[2])
local last
if not held then
  last = redis.pcall('SET', KEYS[2], micros, 'GET')
  -- Compared as text: to make a number of each costs as much as a command. Whatever else there may be comes below.
  if not last or (#last == #micros and last < micros) then
    return micros
  end
end

-- Numbers in order of time, and rising whatever the clock does; as text. `before` is what the counter was, `ahead` the
-- number of whoever is last in line, which a counter from old data may lie below.
local function rising(before, ahead)
  if type(before) == 'table' then
    error(before)
  end
  local number = math.max(tonumber(before) or 0, tonumber(ahead or 0))
  if number < tonumber(micros) then
    return micros
  end
  local order = string.format('%.0f', number + 1)
  redis.call('SET', KEYS[2], order)
  return order
end

local function number_alone(before)
  local fine, order = pcall(rising, before)
  if not fine then
    redis.call('DEL', KEYS[1])
    error(type(order) == 'table' and order or { err = order })
  end
  if order ~= micros then
    redis.call('SET', KEYS[1], id .. order .. rest, 'PX', ARGV[2])
  end
  return order
end

if not held then
  return number_alone(last)
end
local now, lease = tonumber(micros), tonumber(ARGV[2])

