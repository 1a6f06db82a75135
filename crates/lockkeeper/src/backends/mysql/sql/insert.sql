-- number, id, mode, lease in us, lease in us, keeper, label, host, pid, name, granted (1 or 0): the claim enters the list.
INSERT INTO @claims (order_no, id, mode, lease_us, entered_at, ends_at, keeper, label, host, pid, name, granted_at)
  VALUES (?, ?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, ?, ?, ?, ?, ?,
    IF(?, UTC_TIMESTAMP(6), NULL))
