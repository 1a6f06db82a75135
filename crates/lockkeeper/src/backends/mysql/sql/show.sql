-- [name, name]: names, numbers, and all that is shown of each claim.
SELECT name, order_no, id, mode, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), ends_at), lease_us,
    granted_at IS NOT NULL, keeper, label, host, pid,
    TIMESTAMPDIFF(MICROSECOND, COALESCE(granted_at, entered_at), UTC_TIMESTAMP(6))
  FROM @claims WHERE TRUE [AND name = ?]
UNION ALL
SELECT name, order_no, id, mode, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), ends_at), lease_us,
    1, keeper, label, host, pid,
    TIMESTAMPDIFF(MICROSECOND, granted_at, UTC_TIMESTAMP(6))
  FROM @names WHERE state = 'alone' [AND name = ?]
ORDER BY name, order_no
