-- Names, numbers, and all that is shown of each claim.
SELECT name, order_no, id, mode, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), ends_at), lease_us,
    granted_at IS NOT NULL, keeper, label, host, pid,
    TIMESTAMPDIFF(MICROSECOND, COALESCE(granted_at, entered_at), UTC_TIMESTAMP(6))
  FROM @claims
