-- KEYS: claims of names. ARGV: none. Returns per name the time in us, then record and end in ms of each claim.
local function look(claims)
  local view = { string.format('%.0f', now) }
  local held = redis.pcall('GET', claims)
  if type(held) ~= 'string' then
    -- Nobody's, or somebody else's key.
    return view
  end
  if not is_list(held) then
    view[2], view[3] = string.sub(held, 17), redis.call('PEXPIRETIME', claims)
    return parse(view[2]) and view or { view[1] }
  end
  local list = list_at(claims)
  local records = redis.call('HGETALL', list.records)
  for i = 1, #records, 2 do
    view[#view + 1] = records[i + 1]
    view[#view + 1] = redis.call('ZSCORE', list.ends, records[i]) or 0
  end
  return view
end

local views = {}
for i, claims in ipairs(KEYS) do
  views[i] = look(claims)
end
return views
