-- $1 name, $2 id. The name's row no longer tells of a claim of this session that has left. It is for people only, so nobody waits
-- until that is on the disk.
WITH settled AS (UPDATE @names SET state = 'free' WHERE name = $1 AND state = 'alone' AND id = $2)
SELECT set_config('synchronous_commit', 'off', true)
