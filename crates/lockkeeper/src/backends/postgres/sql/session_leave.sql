-- $1 key, $2 shared. Whether the lock was this session's. The claim stands in its name's row, which goes on telling of it: it is
-- shown only while its session has the lock, and the session writes the row before it serves another claim.
SELECT CASE WHEN $2::boolean THEN pg_advisory_unlock_shared($1::bigint) ELSE pg_advisory_unlock($1::bigint) END
