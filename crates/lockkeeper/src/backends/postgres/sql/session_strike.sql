-- $1 name, $2 id, $3 process of its session in the server. Takes the row of a claim away whose session has ended, and
-- those of others whose session has. The same claim may have entered anew, in another session.
WITH alone AS (
  UPDATE @names n SET state = 'free'
  WHERE n.name = $1 AND n.state = 'alone' AND (n.id = $2 AND n.session_pid = $3::integer
    OR n.session_pid <> ALL (ARRAY(SELECT pid FROM pg_stat_activity)))
)
DELETE FROM @claims c
WHERE c.name = $1 AND (c.id = $2 AND c.session_pid = $3::integer OR c.session_pid <> ALL (ARRAY(SELECT pid FROM pg_stat_activity)))
