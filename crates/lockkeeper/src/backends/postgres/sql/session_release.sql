-- $1 name, $2 key, $3 shared, $4 id. Whether the lock was this session's. The row is for people only, so nobody waits
-- until its end is on the disk.
WITH gone AS (DELETE FROM @claims WHERE name = $1 AND id = $4)
SELECT CASE WHEN $3::boolean THEN pg_advisory_unlock_shared($2::bigint) ELSE pg_advisory_unlock($2::bigint) END,
  set_config('synchronous_commit', 'off', true)
