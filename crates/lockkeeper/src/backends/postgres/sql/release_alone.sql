-- $1 name, $2 id. Whether the lease was still on, if the claim was there alone; otherwise nothing.
WITH mine AS (
  UPDATE @names n SET version = nextval('@order')
  WHERE n.name = $1 AND (SELECT bool_and(c.id = $2) FROM @claims c WHERE c.name = $1)
  RETURNING n.name
)
DELETE FROM @claims c USING mine
WHERE c.name = mine.name AND c.id = $2
RETURNING c.ends_at > clock_timestamp()
