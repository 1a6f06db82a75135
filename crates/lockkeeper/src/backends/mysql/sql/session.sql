-- No arguments. Makes the tables of version 2 for mode=session; runs again without harm.
-- Who waits has a row, and gets another one when it comes to hold, whose number is the token: the server counts rows on, and never
-- twice the same. A row counts for as long as the server says that its connection has the lock: `wait_lock` of one who
-- waits, `lock_name` of the newest that holds. What else is there is taken out later.
CREATE TABLE IF NOT EXISTS @names (
  lock_name VARBINARY(64) NOT NULL PRIMARY KEY,
  name VARBINARY(256) NOT NULL
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS @claims (
  order_no BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  lock_name VARBINARY(64) NOT NULL,
  wait_lock VARBINARY(64) NULL,
  waited_no BIGINT UNSIGNED NOT NULL,
  connection BIGINT UNSIGNED NOT NULL,
  lease_us BIGINT NOT NULL,
  since_at DATETIME(6) NOT NULL,
  label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  pid INT UNSIGNED NOT NULL,
  KEY (lock_name)
) ENGINE=InnoDB;
