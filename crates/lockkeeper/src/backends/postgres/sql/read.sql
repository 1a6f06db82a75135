-- $1 name. The version of the name's row, whether somebody is alone in it, and the list, in one snapshot; one row of nulls
-- where the list is empty.
SELECT n.version, n.state = 'alone', c.order_no, c.id, c.mode, c.lease_us,
  (extract(epoch FROM c.ends_at - clock_timestamp()) * 1000000)::bigint AS left_us, c.granted, c.keeper
FROM @names n LEFT JOIN LATERAL (
  SELECT n.version AS order_no, n.id, n.mode, n.lease_us, n.ends_at, true AS granted, n.keeper WHERE n.state = 'alone'
  UNION ALL
  SELECT o.order_no, o.id, o.mode, o.lease_us, o.ends_at, o.granted_at IS NOT NULL, o.keeper
  FROM @claims o WHERE o.name = n.name AND n.state = 'list'
) c ON true
WHERE n.name = $1
ORDER BY c.order_no
