-- KEYS: claims of names. ARGV: none. Returns per name the time in us, then record and end in ms of each claim.
local function look(claims)
  local view = { string.format('%.0f', now) }
  local all = redis.pcall('HGETALL', claims)
  if all.err then
    -- Somebody else's key.
    return view
  end
  local alone = #all == 2
  local ends = names(claims).ends
  for i = 1, #all, 2 do
    if all[i] ~= '' then
      local ms = alone and redis.call('PEXPIRETIME', claims) or redis.call('ZSCORE', ends, all[i])
      view[#view + 1] = all[i + 1]
      view[#view + 1] = ms or 0
    end
  end
  return view
end

local views = {}
for i, claims in ipairs(KEYS) do
  views[i] = look(claims)
end
return views
