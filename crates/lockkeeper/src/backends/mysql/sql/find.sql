-- lock name, name, number, number: the connection of the claim that waits with this number, or holds and has it or waited with it.
SELECT c.connection FROM @claims c JOIN @names n ON n.lock_name = c.lock_name
  WHERE c.lock_name = ? AND n.name = ? AND IF(c.wait_lock IS NULL,
    ? IN (c.order_no, NULLIF(c.waited_no, 0)) AND IS_USED_LOCK(c.lock_name) = c.connection
      AND NOT EXISTS (SELECT 1 FROM @claims h
        WHERE h.lock_name = c.lock_name AND h.wait_lock IS NULL AND h.order_no > c.order_no),
    c.order_no = ? AND IS_USED_LOCK(c.wait_lock) = c.connection)
