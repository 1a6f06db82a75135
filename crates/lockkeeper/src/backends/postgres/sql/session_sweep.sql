-- No arguments. Takes out the rows of claims whose session has ended.
DELETE FROM @claims c WHERE c.session_pid <> ALL (ARRAY(SELECT pid FROM pg_stat_activity)) RETURNING c.order_no
