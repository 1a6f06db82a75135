-- $1 name, $2 id, $3 mode, $4 lease in us, $5 keeper, $6 label, $7 host, $8 pid. The number, if the claim is alone.
-- The quick way: nobody is in the list, so the rule says that it holds. The number is newer than the snapshot, and the
-- row must be as the snapshot has it: so it is above all that were given out for the name before. The end, too, counts from a
-- moment after the question was sent, if not from that at which somebody else let go of the row.
UPDATE @names SET state = 'alone', version = nextval('@order'), id = $2::bytea, granted_at = clock_timestamp(),
  ends_at = clock_timestamp() + $4::bigint * interval '1 microsecond', lease_us = $4::bigint, mode = $3::text,
  keeper = $5::text, label = $6::text, host = $7::text, pid = $8::bigint
WHERE name = $1 AND state = 'free'
RETURNING version
