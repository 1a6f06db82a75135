-- Out of the midst of others. KEYS and ARGV as in release_alone.lua.
if not is_list(held) then
  -- Somebody else's claim; or no claim, which is raised.
  alone(held)
  return 0
end
local list = open(KEYS[1], held)
bury(list)
local was_there = take_out(list, ARGV[1])
if was_there then
  look_ahead(list)
end
promote(list)
return was_there and 1 or 0
