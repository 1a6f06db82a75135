-- number it waited with or 0, connection, lease in us, label, host, pid, lock name, name, this connection's doom, lock name: takes
-- the lock if it is free and nobody is about to end this connection, and with it the next number, which is this lock's to take; the
-- number is told as 0 where the row is another name's.
INSERT INTO @names (waited_no, connection, lease_us, label, host, pid, lock_name, name, last_no, held_no, granted_at)
  SELECT ?, ?, ?, ?, ?, ?, ?, ?, LAST_INSERT_ID(1), 1, UTC_TIMESTAMP(6) FROM DUAL
    WHERE IF(IS_FREE_LOCK(?) = 1, GET_LOCK(?, 0), 0) = 1
  ON DUPLICATE KEY UPDATE
    last_no = IF(name = VALUES(name), LAST_INSERT_ID(last_no + 1), last_no + LAST_INSERT_ID(0)),
    held_no = IF(name = VALUES(name), last_no, held_no), waited_no = VALUES(waited_no),
    connection = VALUES(connection), lease_us = VALUES(lease_us), granted_at = VALUES(granted_at),
    label = VALUES(label), host = VALUES(host), pid = VALUES(pid)
