-- wait lock, lock name, wait lock, lock name, connection, lease in us, label, host, pid: shows that a claim waits, under the
-- next number; it will hold with a later one.
DO GET_LOCK(?, 0);
UPDATE @names SET last_no = LAST_INSERT_ID(last_no + 1) WHERE lock_name = ?;
INSERT INTO @claims (wait_lock, lock_name, order_no, connection, lease_us, entered_at, label, host, pid)
  VALUES (?, ?, LAST_INSERT_ID(), ?, ?, UTC_TIMESTAMP(6), ?, ?, ?)
