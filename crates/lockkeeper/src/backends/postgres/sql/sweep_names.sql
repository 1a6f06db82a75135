-- No arguments, and several statements, which are one transaction. Takes out some of the names that nobody uses, while nobody who
-- has drawn a number is on the way to a row that is not there: otherwise a name could be made, used with a higher number and
-- taken out in between. Numbers do not come from these rows, so none is ever repeated.
SET LOCAL lock_timeout = '1s';
LOCK TABLE @names IN SHARE ROW EXCLUSIVE MODE;
DELETE FROM @names n USING (SELECT name FROM @names u WHERE u.state = 'free' LIMIT 1000) unused WHERE n.name = unused.name
