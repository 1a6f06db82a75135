-- $1 name, $2 key, $3 shared, $4 whether to queue, $5 id, $6 mode, $7 lease in us, $8 label, $9 host, $10 pid.
-- The claim's number, whether it holds, and its session; nothing if it would have to wait and must not. The number is taken while
-- the lock is held, so that numbers rise in the order of grants.
WITH named AS (
  INSERT INTO @names (name, version, lock_key) VALUES ($1, 0, $2) ON CONFLICT (name) DO NOTHING
), locked AS MATERIALIZED (
  SELECT CASE WHEN $3::boolean THEN pg_try_advisory_lock_shared($2::bigint)
    ELSE pg_try_advisory_lock($2::bigint) END AS got
)
INSERT INTO @claims
  (name, order_no, id, mode, lease_us, entered_at, granted_at, ends_at, keeper, label, host, pid, session_pid)
SELECT $1::text, nextval('@order'), $5::bytea, $6::text, $7::bigint, clock_timestamp(),
  CASE WHEN got THEN clock_timestamp() END, 'infinity', '', $8::text, $9::text, $10::bigint, pg_backend_pid()
FROM locked WHERE got OR $4::boolean
RETURNING order_no, granted_at IS NOT NULL, session_pid
