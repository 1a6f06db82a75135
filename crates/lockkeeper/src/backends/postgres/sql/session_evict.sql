-- $1 name, $2 number, $3 why. Takes the claim out, and ends its session if that holds or waits for this very lock: only then
-- does this process of the server surely belong to the claim. One whose request has not reached the server's queue finds
-- its row gone. The number with which a holder waited will do as well: whoever looked just before saw that one. Of one that
-- stands in its name's row, the row is this transaction's before the session is ended: until then the session has served no
-- other claim, for it would have written the row (session_settle.sql).
WITH target AS (
  SELECT c.order_no, EXISTS (
    SELECT FROM @names n JOIN pg_locks l ON l.locktype = 'advisory' AND l.objsubid = 1
      AND l.classid::bigint = (n.lock_key >> 32) & 4294967295 AND l.objid::bigint = n.lock_key & 4294967295
    WHERE n.name = c.name AND l.pid = c.session_pid
  ) AS is_at_lock
  FROM @claims c WHERE c.name = $1 AND $2::bigint IN (c.order_no, c.grant_no)
), listed AS (
  DELETE FROM @claims c USING target t
  WHERE c.name = $1 AND c.order_no = t.order_no AND (t.is_at_lock
    OR c.granted_at IS NULL AND c.session_pid = ANY (ARRAY(SELECT pid FROM pg_stat_activity)))
  RETURNING coalesce(c.grant_no, c.order_no) AS order_no, c.label, c.host, c.pid, c.session_pid, t.is_at_lock
), alone AS (
  UPDATE @names n SET state = 'free' FROM @locks l
  WHERE n.name = $1 AND n.state = 'alone' AND n.version = $2::bigint AND l.name = n.name AND l.order_no = n.version
  RETURNING n.version AS order_no, n.label, n.host, n.pid, n.session_pid, true AS is_at_lock
), gone AS (
  SELECT * FROM listed UNION ALL SELECT * FROM alone
), noted AS (
  INSERT INTO @broken (broken_at, name, order_no, label, host, pid, why)
  SELECT clock_timestamp(), $1, order_no, label, host, pid, $3::text FROM gone
)
SELECT CASE WHEN is_at_lock THEN session_pid END, CASE WHEN is_at_lock THEN pg_terminate_backend(session_pid) END
FROM gone
