-- $1 name, $2 id. Whether the server has given this claim its lock, or null if its request has not reached the server's line;
-- how many are ahead of it, and the shortest lease of these in us; nothing if the claim is not there.
SELECT (
  SELECT bool_or(l.granted) FROM @names n JOIN pg_locks l ON l.locktype = 'advisory' AND l.objsubid = 1
    AND l.classid::bigint = (n.lock_key >> 32) & 4294967295 AND l.objid::bigint = n.lock_key & 4294967295
  WHERE n.name = c.name AND l.pid = c.session_pid
), w.ahead, w.lease_us
FROM @claims c, LATERAL (
  SELECT count(*) AS ahead, min(o.lease_us) AS lease_us FROM @locks o
  WHERE o.name = c.name AND o.id <> c.id AND (o.granted_at IS NOT NULL OR o.order_no < c.order_no)
) w
WHERE c.name = $1 AND c.id = $2
