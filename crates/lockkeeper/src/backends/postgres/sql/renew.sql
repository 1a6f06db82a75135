-- $1 names, $2 ids, $3 leases in us: one of each per claim. Of each claim that lives, in its name's row or in the list: its
-- place in the question, its number and whether it holds; if it waits, how many are ahead, when the lease just ahead ends,
-- and whether anything ahead has died or has more left than it can have, so that the list must be looked at.
WITH asked AS MATERIALIZED (
  SELECT * FROM unnest($1::text[], $2::bytea[], $3::bigint[]) WITH ORDINALITY AS a (name, id, lease_us, place)
), alone AS (
  UPDATE @names n
  SET ends_at = clock_timestamp() + a.lease_us * interval '1 microsecond', lease_us = a.lease_us
  FROM asked a
  WHERE n.name = a.name AND n.state = 'alone' AND n.id = a.id AND n.ends_at > clock_timestamp()
  RETURNING a.place, n.version
), renewed AS (
  UPDATE @claims c
  SET ends_at = clock_timestamp() + a.lease_us * interval '1 microsecond', lease_us = a.lease_us
  FROM asked a
  WHERE c.name = a.name AND c.id = a.id AND c.ends_at > clock_timestamp()
  RETURNING a.place, c.name, c.order_no, c.granted_at IS NOT NULL AS granted
)
SELECT r.place, r.order_no, r.granted, w.ahead, w.left_us, w.stale
FROM renewed r LEFT JOIN LATERAL (
  SELECT count(*) AS ahead,
    (extract(epoch FROM (array_agg(o.ends_at ORDER BY o.order_no DESC))[1] - clock_timestamp()) * 1000000)::bigint
      AS left_us,
    bool_or(o.ends_at <= clock_timestamp()
      OR o.ends_at > clock_timestamp() + o.lease_us * interval '1 microsecond') AS stale
  FROM @claims o WHERE o.name = r.name AND o.order_no < r.order_no AND NOT r.granted
) w ON NOT r.granted
UNION ALL
SELECT place, version, true, NULL, NULL, NULL FROM alone
