-- wait lock, lock name, wait lock, connection, lease in us, label, host, pid: shows that a claim waits, under the next number; it will
-- hold with a later one.
DO GET_LOCK(?, 0);
INSERT INTO @claims (lock_name, wait_lock, waited_no, connection, lease_us, since_at, label, host, pid)
  VALUES (?, ?, 0, ?, ?, UTC_TIMESTAMP(6), ?, ?, ?)
