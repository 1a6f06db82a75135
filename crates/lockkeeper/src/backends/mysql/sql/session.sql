-- No arguments. Makes the tables of version 1 for mode=session; runs again without harm.
-- A name's row tells who took it last: they hold it while the server says that their connection has the lock.
CREATE TABLE IF NOT EXISTS @names (
  lock_name VARBINARY(64) NOT NULL PRIMARY KEY,
  name VARBINARY(256) NOT NULL,
  last_no BIGINT UNSIGNED NOT NULL,
  held_no BIGINT UNSIGNED NOT NULL,
  waited_no BIGINT UNSIGNED NOT NULL,
  connection BIGINT UNSIGNED NOT NULL,
  lease_us BIGINT NOT NULL,
  granted_at DATETIME(6) NOT NULL,
  label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  pid INT UNSIGNED NOT NULL
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS @claims (
  wait_lock VARBINARY(64) NOT NULL PRIMARY KEY,
  lock_name VARBINARY(64) NOT NULL,
  order_no BIGINT UNSIGNED NOT NULL,
  connection BIGINT UNSIGNED NOT NULL,
  lease_us BIGINT NOT NULL,
  entered_at DATETIME(6) NOT NULL,
  label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  pid INT UNSIGNED NOT NULL
) ENGINE=InnoDB;
