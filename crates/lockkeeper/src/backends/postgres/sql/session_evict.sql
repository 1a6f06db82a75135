-- $1 name, $2 number, $3 why. Ends the session of this claim, if it holds or waits for this very lock.
WITH gone AS (
  DELETE FROM @claims c USING @names n, pg_locks l
  WHERE c.name = $1 AND c.order_no = $2 AND n.name = c.name AND l.pid = c.session_pid
    AND l.locktype = 'advisory' AND l.objsubid = 1
    AND l.classid::bigint = (n.lock_key >> 32) & 4294967295 AND l.objid::bigint = n.lock_key & 4294967295
  RETURNING c.*
), noted AS (
  INSERT INTO @broken (broken_at, name, order_no, label, host, pid, why)
  SELECT clock_timestamp(), name, order_no, label, host, pid, $3::text FROM gone
)
SELECT session_pid, pg_terminate_backend(session_pid) FROM gone
