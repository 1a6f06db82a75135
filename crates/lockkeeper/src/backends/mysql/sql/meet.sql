-- lock name, name, lock name: gives a name its row, unless the lock has one, and tells what others left behind. A row is written by who
-- has its lock: whose connection has it no more never will again under that number.
INSERT IGNORE INTO @names (lock_name, name) VALUES (?, ?);
SELECT order_no FROM @claims
  WHERE lock_name = ? AND COALESCE(IS_USED_LOCK(COALESCE(wait_lock, lock_name)), 0) <> connection LIMIT 64
