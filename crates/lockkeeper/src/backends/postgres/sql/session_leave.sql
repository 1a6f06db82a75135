-- $1 name, $2 key, $3 shared, $4 id. As session_release.sql, of a claim that stands in its name's row.
WITH gone AS (UPDATE @names SET state = 'free' WHERE name = $1 AND state = 'alone' AND id = $4)
SELECT CASE WHEN $3::boolean THEN pg_advisory_unlock_shared($2::bigint) ELSE pg_advisory_unlock($2::bigint) END,
  set_config('synchronous_commit', 'off', true)
