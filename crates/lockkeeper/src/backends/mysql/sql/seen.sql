-- No arguments. Who holds, and who waits: name, number, lease in us, how long in us, label, host, pid, whether it holds.
SELECT * FROM (
  SELECT n.name, c.order_no, c.lease_us, TIMESTAMPDIFF(MICROSECOND, c.since_at, UTC_TIMESTAMP(6)), c.label, c.host, c.pid,
      c.wait_lock IS NULL AS holds, c.lock_name
    FROM @claims c JOIN @names n ON n.lock_name = c.lock_name
    WHERE IF(c.wait_lock IS NULL,
      IS_USED_LOCK(c.lock_name) = c.connection
        AND NOT EXISTS (SELECT 1 FROM @claims h
          WHERE h.lock_name = c.lock_name AND h.wait_lock IS NULL AND h.order_no > c.order_no),
      -- One that has the lock already, but has not written so yet, is still shown to wait.
      IS_USED_LOCK(c.wait_lock) = c.connection
        AND NOT EXISTS (SELECT 1 FROM @claims h WHERE h.lock_name = c.lock_name AND h.waited_no = c.order_no))
) AS seen
