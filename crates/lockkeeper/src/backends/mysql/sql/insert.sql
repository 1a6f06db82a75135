-- name, order_no, id, mode, lease in us, granted (1 or 0), lease in us, keeper, label, host, pid: the claim enters the list.
INSERT INTO @claims (name, order_no, id, mode, lease_us, entered_at, granted_at, ends_at, keeper, label, host, pid)
  VALUES (?, ?, ?, ?, ?, UTC_TIMESTAMP(6), IF(?, UTC_TIMESTAMP(6), NULL),
    UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, ?, ?, ?, ?)
