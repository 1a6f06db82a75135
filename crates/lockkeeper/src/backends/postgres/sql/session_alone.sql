-- $1 name, $2 key, $3 id, $4 lease in us, $5 label, $6 host, $7 pid. The claim's number and its session, if the lock is free and the
-- name has a row with this key; otherwise nothing, and the session may have the lock nevertheless. The number is taken while
-- the lock is held, so that numbers rise in the order of grants. The lock is asked for once, however often the row is looked at.
WITH locked AS MATERIALIZED (SELECT pg_try_advisory_lock($2::bigint) AS got)
UPDATE @names n SET state = 'alone', version = nextval('@order'), id = $3::bytea, granted_at = clock_timestamp(),
  ends_at = 'infinity', lease_us = $4::bigint, mode = 'x', keeper = '', label = $5::text, host = $6::text, pid = $7::bigint,
  session_pid = pg_backend_pid()
FROM locked WHERE locked.got AND n.name = $1 AND n.lock_key = $2::bigint
RETURNING n.version, n.session_pid
