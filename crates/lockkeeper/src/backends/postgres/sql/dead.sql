-- No arguments. The names in whose lists somebody has died.
SELECT DISTINCT name FROM @claims WHERE ends_at <= clock_timestamp()
