-- KEYS: lock, flag; ARGV: the claim's record or only its id, prefix
-- returns: 1 if the claim held or waited here
return take_out(names(KEYS[1], ARGV[2]), ARGV[1]:sub(1, 16), deleted)
