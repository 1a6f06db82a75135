-- What is where.
--
-- The value at the key of a name is a claim that is alone, its id and its record; or, as its 17th byte tells, the head of
-- a list, "holders kind permits until": how many claims at the front of the queue hold, what they are, and when the keys
-- expire. The head is kept, not counted anew, so that no work grows with the number of claims. The list has three more
-- keys: the records by id; the queue, ids by order; the ends, ids by the moment at which their leases end. A record is
-- "order mode channel party...".
local function parse(record)
  local order, mode, channel = string.match(record, '^(%d+) (%S+) (%S+)')
  return tonumber(order), mode, channel
end

local function names(claims)
  local kind = string.find(claims, '}:k:', 1, true) + 2
  local before, after = string.sub(claims, 1, kind - 1), string.sub(claims, kind + 1)
  return {
    claims = claims,
    records = before .. 'r' .. after,
    queue = before .. 'q' .. after,
    ends = before .. 'e' .. after,
  }
end

