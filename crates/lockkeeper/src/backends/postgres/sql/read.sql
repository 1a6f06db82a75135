-- $1 name. The list and the version of the name's row, in one snapshot; one row of nulls where the list is empty.
SELECT n.version, c.order_no, c.id, c.mode, c.lease_us,
  (extract(epoch FROM c.ends_at - clock_timestamp()) * 1000000)::bigint AS left_us,
  c.granted_at IS NOT NULL AS granted, c.keeper
FROM @names n LEFT JOIN @claims c ON c.name = n.name
WHERE n.name = $1
ORDER BY c.order_no
