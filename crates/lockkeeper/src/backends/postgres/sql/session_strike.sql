-- $1 name, $2 id. Takes the row of a claim away whose session has ended, and those of others whose session has.
DELETE FROM @claims c
WHERE c.name = $1 AND (c.id = $2 OR c.session_pid <> ALL (ARRAY(SELECT pid FROM pg_stat_activity)))
