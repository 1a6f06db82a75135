-- No arguments. All claims in the order of names and numbers.
SELECT c.name, c.order_no, c.id, c.mode, c.lease_us,
  (extract(epoch FROM c.ends_at - clock_timestamp()) * 1000000)::bigint AS left_us,
  c.granted_at IS NOT NULL AS granted, c.keeper, c.label, c.host, c.pid,
  (extract(epoch FROM clock_timestamp() - coalesce(c.granted_at, c.entered_at)) * 1000000)::bigint AS since_us
FROM @locks c
ORDER BY c.name, c.order_no
