-- No arguments. Takes out some of the names that nobody uses. Numbers do not come from them, so none is ever repeated.
DELETE FROM @names n USING (
  SELECT name FROM @names u WHERE NOT EXISTS (SELECT FROM @claims c WHERE c.name = u.name) LIMIT 1000
) unused
WHERE n.name = unused.name
RETURNING n.name
