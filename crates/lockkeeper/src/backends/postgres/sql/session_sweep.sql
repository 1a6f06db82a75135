-- No arguments. Takes out the rows of claims whose session has ended.
WITH alone AS (
  UPDATE @names n SET state = 'free'
  WHERE n.state = 'alone' AND n.session_pid <> ALL (ARRAY(SELECT pid FROM pg_stat_activity)) RETURNING n.version
), listed AS (
  DELETE FROM @claims c WHERE c.session_pid <> ALL (ARRAY(SELECT pid FROM pg_stat_activity)) RETURNING c.order_no
)
SELECT version FROM alone UNION ALL SELECT order_no FROM listed
