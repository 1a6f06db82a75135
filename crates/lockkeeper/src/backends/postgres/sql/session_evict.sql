-- $1 name, $2 number, $3 why. Takes the claim out, and ends its session if that holds or waits for this very lock: only then
-- does this process of the server surely belong to the claim. One whose request has not reached the server's queue finds
-- its row gone. The number with which a holder waited will do as well: whoever looked just before saw that one.
WITH target AS (
  SELECT c.order_no, EXISTS (
    SELECT FROM @names n JOIN pg_locks l ON l.locktype = 'advisory' AND l.objsubid = 1
      AND l.classid::bigint = (n.lock_key >> 32) & 4294967295 AND l.objid::bigint = n.lock_key & 4294967295
    WHERE n.name = c.name AND l.pid = c.session_pid
  ) AS is_at_lock
  FROM @claims c WHERE c.name = $1 AND $2::bigint IN (c.order_no, c.entered_no)
), gone AS (
  DELETE FROM @claims c USING target t
  WHERE c.name = $1 AND c.order_no = t.order_no AND (t.is_at_lock
    OR c.granted_at IS NULL AND c.session_pid = ANY (ARRAY(SELECT pid FROM pg_stat_activity)))
  RETURNING c.*, t.is_at_lock
), noted AS (
  INSERT INTO @broken (broken_at, name, order_no, label, host, pid, why)
  SELECT clock_timestamp(), name, order_no, label, host, pid, $3::text FROM gone
)
SELECT CASE WHEN is_at_lock THEN session_pid END, CASE WHEN is_at_lock THEN pg_terminate_backend(session_pid) END
FROM gone
