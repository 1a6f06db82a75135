-- name, name, id, mode, lease in us, lease in us, keeper, label, host, pid, name: if nobody is in the name's list, the rule says that the
-- claim holds. The number is taken when the name's row is this transaction's, so it is above all that were given out before.
BEGIN;
INSERT INTO @names (name, last_no) VALUES (?, LAST_INSERT_ID(1))
  ON DUPLICATE KEY UPDATE last_no = LAST_INSERT_ID(last_no + 1);
INSERT INTO @claims (name, order_no, id, mode, lease_us, entered_at, granted_at, ends_at, keeper, label, host, pid)
  SELECT ?, LAST_INSERT_ID(), ?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6),
    UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, ?, ?, ?, ?
  FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM @claims WHERE name = ?);
COMMIT
