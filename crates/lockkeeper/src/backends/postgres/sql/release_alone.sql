-- $1 name, $2 id. Whether the lease was still on, if the claim was there alone; otherwise nothing. The name's row is not written:
-- whoever has entered since writes the row of the one that was alone, and then this fails.
DELETE FROM @claims c
WHERE c.name = $1 AND c.id = $2 AND NOT EXISTS (SELECT FROM @claims o WHERE o.name = $1 AND o.id <> $2)
RETURNING c.ends_at > clock_timestamp()
