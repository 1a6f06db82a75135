-- id, mode, lease in us, lease in us, keeper, label, host, pid, name: the same, for a name that was never used; a row that is there stays
-- as it is.
INSERT INTO @names (last_no, order_no, state, id, mode, lease_us, granted_at, ends_at, keeper, label, host, pid, name)
  VALUES (1, 1, 'alone', ?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, ?, ?, ?, ?, ?)
  ON DUPLICATE KEY UPDATE last_no = last_no
