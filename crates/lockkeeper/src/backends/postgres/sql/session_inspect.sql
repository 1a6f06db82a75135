-- $1 name, or null for all. The claims whose session lives, those that hold before those that wait.
SELECT c.name, c.order_no, c.id, c.mode, c.lease_us, c.lease_us AS left_us,
  c.granted_at IS NOT NULL AS granted, c.keeper, c.label, c.host, c.pid,
  (extract(epoch FROM clock_timestamp() - coalesce(c.granted_at, c.entered_at)) * 1000000)::bigint AS since_us
FROM @locks c
WHERE $1::text IS NULL OR c.name = $1
ORDER BY c.name, c.granted_at IS NULL, c.order_no
