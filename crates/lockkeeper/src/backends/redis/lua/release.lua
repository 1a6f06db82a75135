-- Out of the midst of others. KEYS and ARGV as in release_alone.lua.
local list = open(KEYS[1], found[2])
bury(list)
local was_there = take_out(list, ARGV[1])
promote(list)
return was_there and 1 or 0
