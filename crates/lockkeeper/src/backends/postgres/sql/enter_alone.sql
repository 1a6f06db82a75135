-- $1 name, $2 id, $3 mode, $4 lease in us, $5 keeper, $6 label, $7 host, $8 pid. The number, if the claim is alone.
-- The quick way: nobody is in the list, so the rule says that it holds. The number is taken when the name's row is
-- this transaction's, so it is above all that were given out for the name before.
WITH mine AS (
  INSERT INTO @names AS n (name, version) VALUES ($1, nextval('@order'))
  ON CONFLICT (name) DO UPDATE SET version = nextval('@order')
    WHERE NOT EXISTS (SELECT FROM @claims c WHERE c.name = $1)
  RETURNING n.name
)
INSERT INTO @claims
  (name, order_no, id, mode, lease_us, entered_at, granted_at, ends_at, keeper, label, host, pid)
SELECT name, nextval('@order'), $2::bytea, $3::text, $4::bigint, clock_timestamp(), clock_timestamp(),
  clock_timestamp() + $4::bigint * interval '1 microsecond', $5::text, $6::text, $7::text, $8::bigint
FROM mine
RETURNING order_no
