-- $1 name, $2 version that was read or null, $3 delete, $4 restart, $5 grant, $6 renew, $7 share, $8 insert (holding,
-- or null), $9 id, $10 mode, $11 lease in us, $12 keeper, $13 label, $14 host, $15 pid, $16 channels, $17 payloads,
-- $18 number that is broken, $19 why, $20 those who leave because their lease has ended: a renewal that was asked for
-- in time may have become visible since they were read, and then nothing is done. $21 whether somebody was alone: its leaving
-- gives no new version, so it must still be there; it moves to the claims, unless it leaves. $22 whether nobody is in
-- the list afterwards. How often it was done, 0 or 1, and the number of the claim that entered.
WITH made AS (
  INSERT INTO @names (name, state, version) SELECT $1, 'list', nextval('@order') WHERE $2::bigint IS NULL
  ON CONFLICT DO NOTHING RETURNING name
), found AS (
  UPDATE @names n SET version = nextval('@order'), state = CASE WHEN $22::boolean THEN 'free' ELSE 'list' END
  WHERE n.name = $1 AND n.version = $2::bigint AND (n.state = 'alone') = $21::boolean
    AND NOT ($21::boolean AND $2::bigint = ANY($20::bigint[]) AND n.ends_at > clock_timestamp())
    AND NOT EXISTS (SELECT FROM @claims c
      WHERE c.name = $1 AND c.order_no = ANY($20::bigint[]) AND c.ends_at > clock_timestamp())
  RETURNING n.*
), mine AS (
  SELECT name FROM made UNION ALL SELECT name FROM found
), alone AS (
  SELECT * FROM found WHERE $21::boolean
), noted AS (
  INSERT INTO @broken (broken_at, name, order_no, label, host, pid, why)
  SELECT clock_timestamp(), c.name, c.order_no, c.label, c.host, c.pid, $19::text
  FROM mine JOIN @claims c ON c.name = mine.name AND c.order_no = $18::bigint
  UNION ALL
  SELECT clock_timestamp(), name, $2::bigint, label, host, pid, $19::text FROM alone WHERE $2::bigint = $18::bigint
), gone AS (
  DELETE FROM @claims c USING mine WHERE c.name = mine.name AND c.order_no = ANY($3::bigint[])
), changed AS (
  UPDATE @claims c SET
    granted_at = CASE WHEN c.order_no = ANY($5::bigint[]) THEN clock_timestamp() ELSE c.granted_at END,
    mode = CASE WHEN c.order_no = $7::bigint THEN 's' ELSE c.mode END,
    lease_us = CASE WHEN c.order_no = $6::bigint THEN $11::bigint ELSE c.lease_us END,
    ends_at = CASE
      WHEN c.order_no = $6::bigint THEN clock_timestamp() + $11::bigint * interval '1 microsecond'
      WHEN c.order_no = ANY($4::bigint[]) THEN clock_timestamp() + c.lease_us * interval '1 microsecond'
      ELSE c.ends_at END
  FROM mine
  WHERE c.name = mine.name AND c.order_no <> ALL ($3::bigint[])
    AND c.order_no = ANY($4::bigint[] || $5::bigint[] || ARRAY[$6::bigint, $7::bigint])
), moved AS (
  INSERT INTO @claims
    (name, order_no, id, mode, lease_us, entered_at, granted_at, ends_at, keeper, label, host, pid)
  SELECT name, $2::bigint, id, CASE WHEN $2::bigint = $7::bigint THEN 's' ELSE mode END,
    CASE WHEN $2::bigint = $6::bigint THEN $11::bigint ELSE lease_us END, granted_at, granted_at,
    CASE
      WHEN $2::bigint = $6::bigint THEN clock_timestamp() + $11::bigint * interval '1 microsecond'
      WHEN $2::bigint = ANY($4::bigint[]) THEN clock_timestamp() + lease_us * interval '1 microsecond'
      ELSE ends_at END, keeper, label, host, pid
  FROM alone WHERE $2::bigint <> ALL ($3::bigint[])
), entered AS (
  INSERT INTO @claims
    (name, order_no, id, mode, lease_us, entered_at, granted_at, ends_at, keeper, label, host, pid)
  SELECT name, nextval('@order'), $9::bytea, $10::text, $11::bigint, clock_timestamp(),
    CASE WHEN $8::boolean THEN clock_timestamp() END,
    clock_timestamp() + $11::bigint * interval '1 microsecond', $12::text, $13::text, $14::text, $15::bigint
  FROM mine WHERE $8::boolean IS NOT NULL
  RETURNING order_no
), told AS (
  SELECT pg_notify(channel, payload) FROM mine, unnest($16::text[], $17::text[]) AS ring (channel, payload)
)
SELECT (SELECT count(*) FROM mine), (SELECT max(order_no) FROM entered), (SELECT count(*) FROM told)
