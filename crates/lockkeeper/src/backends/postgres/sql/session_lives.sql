-- $1 the process of a session in the server. Whether it lives.
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1::integer)
