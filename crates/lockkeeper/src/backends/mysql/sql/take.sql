-- lock name, lease in us, label, host, pid, this connection's doom, lock name, connection: takes the lock if it is free and nobody is
-- about to end this connection, and with it the next number. Where it is not taken there is no connection to write, which
-- the server refuses: nothing is written, and no row is searched for either way.
INSERT INTO @claims (lock_name, waited_no, lease_us, label, host, pid, since_at, connection)
  VALUES (?, 0, ?, ?, ?, ?, UTC_TIMESTAMP(6), IF(IF(IS_FREE_LOCK(?) = 1, GET_LOCK(?, 0), 0) = 1, ?, NULL))
