-- id, mode, lease in us, lease in us, keeper, label, host, pid, name: if nobody is in the name's list, the rule says that the claim
-- holds; it stands in the name's own row. The number is the next one, whether or not assignments see those before them.
UPDATE @names SET order_no = last_no + 1, last_no = LAST_INSERT_ID(last_no + 1), state = 'alone',
    id = ?, mode = ?, lease_us = ?, granted_at = UTC_TIMESTAMP(6), ends_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND,
    keeper = ?, label = ?, host = ?, pid = ?
  WHERE name = ? AND state = 'free'
