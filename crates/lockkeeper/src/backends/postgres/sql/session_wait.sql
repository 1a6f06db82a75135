-- $1 name, $2 key, $3 shared, $4 id. Waits in the server; then the claim's number, taken while the lock is held, beside
-- that with which it waited. Nothing if the claim was broken meanwhile.
WITH locked AS MATERIALIZED (
  SELECT CASE WHEN $3::boolean THEN pg_advisory_lock_shared($2::bigint)::text
    ELSE pg_advisory_lock($2::bigint)::text END AS done
)
UPDATE @claims c SET grant_no = nextval('@order'), granted_at = clock_timestamp()
FROM locked WHERE locked.done IS NOT NULL AND c.name = $1 AND c.id = $4
RETURNING c.grant_no
