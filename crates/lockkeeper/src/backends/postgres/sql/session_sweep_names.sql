-- No arguments, and several statements, which are one transaction. Deletes some of the names that have neither a claim nor a
-- session at their lock. Every statement that acquires a lock takes this table's ROW EXCLUSIVE lock first, so none is between
-- its lock and its row meanwhile. Numbers come from the sequence, not from these rows, so none is repeated.
SET LOCAL lock_timeout = '1s';
LOCK TABLE @names IN SHARE ROW EXCLUSIVE MODE;
DELETE FROM @names n USING (
  SELECT name FROM @names u
  WHERE NOT EXISTS (SELECT FROM @claims c WHERE c.name = u.name) AND u.lock_key <> ALL (ARRAY(
    SELECT (l.classid::bigint << 32) | l.objid::bigint FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1))
  LIMIT 1000
) unused WHERE n.name = unused.name
