-- number, id, mode, lease in us, lease in us, keeper, label, host, pid, name: the claim is the only one in the name's list, whose row is
-- locked.
UPDATE @names SET order_no = ?, state = 'alone',
    id = ?, mode = ?, lease_us = ?, granted_at = UTC_TIMESTAMP(6), ends_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND,
    keeper = ?, label = ?, host = ?, pid = ?
  WHERE name = ?
