-- KEYS: lock, line, waiting; ARGV: id, channel
-- returns: 1 if the claim held or waited here
return take_out(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2])
