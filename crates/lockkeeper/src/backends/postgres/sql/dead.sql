-- No arguments. The names in whose lists somebody has died.
SELECT name FROM @names WHERE state = 'alone' AND ends_at <= clock_timestamp()
UNION SELECT name FROM @claims WHERE ends_at <= clock_timestamp()
