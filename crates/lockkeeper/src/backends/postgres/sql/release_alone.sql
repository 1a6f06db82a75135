-- $1 name, $2 id. Whether the lease was still on, if the claim is alone; otherwise nothing. Nobody else's standing changes by
-- it. Whoever is coming behind it writes the same row, and one of the two fails.
UPDATE @names SET state = 'free' WHERE name = $1 AND state = 'alone' AND id = $2 RETURNING ends_at > clock_timestamp()
