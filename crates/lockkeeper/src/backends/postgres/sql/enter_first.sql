-- As enter_alone.sql, for a name that may have no row yet. The number of a row that is made is drawn before it is there;
-- names are forgotten only while nobody is on the way here (sweep_names.sql), so nobody had a higher one meanwhile.
INSERT INTO @names AS n (name, state, version, id, granted_at, ends_at, lease_us, mode, keeper, label, host, pid)
VALUES ($1, 'alone', nextval('@order'), $2::bytea, clock_timestamp(),
  clock_timestamp() + $4::bigint * interval '1 microsecond', $4::bigint, $3::text, $5::text, $6::text, $7::text, $8::bigint)
ON CONFLICT (name) DO UPDATE SET state = 'alone', version = nextval('@order'), id = excluded.id,
  granted_at = clock_timestamp(), ends_at = clock_timestamp() + $4::bigint * interval '1 microsecond',
  lease_us = excluded.lease_us, mode = excluded.mode, keeper = excluded.keeper, label = excluded.label,
  host = excluded.host, pid = excluded.pid
WHERE n.state = 'free'
RETURNING n.version
