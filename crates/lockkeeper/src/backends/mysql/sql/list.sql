-- name: its list in order.
SELECT order_no, id, mode, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), ends_at), lease_us,
    granted_at IS NOT NULL, keeper
  FROM @claims WHERE name = ? ORDER BY order_no
