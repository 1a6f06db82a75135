-- KEYS: claims of the name, once per claim. ARGV: id and lease in ms, per claim, then "slots" if keys may be on the
-- move. Returns three numbers per claim.
local answers = {}
local function answer(kind, number, ms)
  answers[#answers + 1] = kind
  answers[#answers + 1] = number
  answers[#answers + 1] = ms
end

local function look(claims, id, lease)
  local held = redis.call('GET', claims)
  if not held then
    return 0, 0, 0
  end
  if not is_list(held) then
    local owner, order = alone(held)
    if owner ~= id then
      return 0, 0, 0
    end
    redis.call('PEXPIRE', claims, lease)
    return 1, order, lease
  end
  local list = open(claims, held)
  bury(list)
  promote(list)
  if list.count == 0 or not redis.call('ZSCORE', list.queue, id) then
    return 0, 0, 0
  end
  renew(list, id, lease)
  return standing(list, id)
end

-- A name that somebody tampered with must not cost the other claims of the batch their leases: its own are gone. What
-- is wrong with the server is wrong for all, and nobody's claim is gone for that.
local function is_torn(why)
  -- An error of Lua itself, as over a missing part, has no code.
  local code = string.match(why, '^%u+')
  return not code or code == 'WRONGTYPE' or (code == 'TRYAGAIN' and ARGV[#ARGV] ~= 'slots')
end

for i, claims in ipairs(KEYS) do
  local fine, kind, number, ms = pcall(look, claims, ARGV[2 * i - 1], tonumber(ARGV[2 * i]))
  if fine then
    answer(kind, number, ms)
  else
    local why = reason(kind)
    if not is_torn(why) then
      error({ err = why })
    end
    answer(0, 0, 0)
  end
end
return answers
