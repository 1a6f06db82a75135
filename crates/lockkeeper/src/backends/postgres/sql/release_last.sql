-- $1 name, $2 id. Whether the lease was still on, if nobody ever came behind the claim; otherwise nothing. Nobody else's standing
-- changes by it, so the name's row is not written. Whoever is coming behind it writes its row, and then this fails.
DELETE FROM @claims c WHERE c.name = $1 AND c.id = $2 AND NOT c.followed RETURNING c.ends_at > clock_timestamp()
