-- $1 name, $2 key, $3 id. Takes the shared lock beside the exclusive one, then gives that back.
WITH listed AS (UPDATE @claims SET mode = 's' WHERE name = $1 AND id = $3 RETURNING name),
alone AS (UPDATE @names SET mode = 's' WHERE name = $1 AND state = 'alone' AND id = $3 RETURNING name),
down AS (SELECT name FROM listed UNION ALL SELECT name FROM alone)
SELECT pg_advisory_lock_shared($2::bigint)::text, pg_advisory_unlock($2::bigint) FROM down
