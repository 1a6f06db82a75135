-- name, name: from now on the name's list stands among the claims; who was alone is the first there. The name's row is locked.
INSERT INTO @claims (name, order_no, id, mode, lease_us, entered_at, granted_at, ends_at, keeper, label, host, pid)
  SELECT name, order_no, id, mode, lease_us, granted_at, granted_at, ends_at, keeper, label, host, pid
  FROM @names WHERE name = ? AND state = 'alone';
UPDATE @names SET state = 'list' WHERE name = ?;
