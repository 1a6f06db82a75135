-- What is where.
--
-- The value at the key of a name is a claim that is alone, its id and its record; or, as its 17th byte tells, the head of
-- a list, "holders kind permits until safe": how many claims at the front of the queue hold, what they are, when the keys
-- expire, and until when nobody can die, since no lease ends before. The head is kept, not counted anew, so that no work
-- grows with the number of claims. The list has three more keys: the records by id; the queue, ids by order; the ends, ids
-- by the moment at which their leases end. A record is "order mode channel party...".
local function parse(record)
  local order, mode, channel = string.match(record, '^(%d+) (%S+) (%S+)')
  return tonumber(order), mode, channel
end

-- The records, the queue and the ends of a list.
local function names(claims)
  local kind = string.find(claims, '}:k:', 1, true) + 2
  local before, after = string.sub(claims, 1, kind - 1), string.sub(claims, kind + 1)
  return before .. 'r' .. after, before .. 'q' .. after, before .. 'e' .. after
end

-- The server's time in microseconds, as text: to make a number of it, and text of that again, costs as much as a command.
local function clock()
  local time = redis.call('TIME')
  local micros = time[2]
  if #micros < 6 then
    micros = string.sub('00000' .. micros, -6)
  end
  return time[1] .. micros
end

