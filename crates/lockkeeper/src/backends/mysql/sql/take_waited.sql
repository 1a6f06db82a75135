-- lock name, number it waited with, lease in us, label, host, pid, whether the lock was granted, connection: as `take.sql`, for a lock
-- that was waited for.
INSERT INTO @claims (lock_name, waited_no, lease_us, label, host, pid, since_at, connection)
  VALUES (?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6), IF(? = 1, ?, NULL))
