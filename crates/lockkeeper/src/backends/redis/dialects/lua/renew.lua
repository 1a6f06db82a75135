-- KEYS: the lock of each claim; ARGV: own, then id and lease in ms of each claim
local function look(lock, id, lease)
  purge(lock, id)
  return renewed(lock, id, lease)
end

local standings = {}
for place, key in ipairs(KEYS) do
  local id, lock = ARGV[2 * place], lock_at(key)
  local fine, told = pcall(look, lock, id, tonumber(ARGV[2 * place + 1]))
  if not fine then
    -- A name that somebody tampered with must not cost the other claims of the batch their leases. Its own are gone.
    only_tampered(told)
    pcall(leave, lock, id)
    told = { GONE }
  end
  standings[place] = told
end
return standings
