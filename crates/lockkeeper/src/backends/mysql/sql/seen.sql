-- No arguments. Who holds, and who waits: name, number, lease in us, how long in us, label, host, pid, whether it holds.
SELECT * FROM (
  SELECT name, held_no AS order_no, lease_us, TIMESTAMPDIFF(MICROSECOND, granted_at, UTC_TIMESTAMP(6)), label, host, pid,
      1 AS holds, lock_name
    FROM @names WHERE IS_USED_LOCK(lock_name) = connection
  UNION ALL
  SELECT n.name, c.order_no, c.lease_us, TIMESTAMPDIFF(MICROSECOND, c.entered_at, UTC_TIMESTAMP(6)), c.label, c.host, c.pid,
      0 AS holds, c.lock_name
    FROM @claims c JOIN @names n ON n.lock_name = c.lock_name
    -- One that has the lock already, but has not written so yet, is still shown to wait.
    WHERE IS_USED_LOCK(c.wait_lock) = c.connection
      AND NOT (n.connection = c.connection AND COALESCE(IS_USED_LOCK(c.lock_name), 0) = c.connection)
) AS seen
