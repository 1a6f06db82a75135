-- No arguments. Makes the tables of version 1 for mode=lease; runs again without harm.
CREATE TABLE IF NOT EXISTS @names (
  name VARBINARY(256) NOT NULL PRIMARY KEY,
  last_no BIGINT UNSIGNED NOT NULL
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS @claims (
  name VARBINARY(256) NOT NULL,
  order_no BIGINT UNSIGNED NOT NULL,
  id BINARY(16) NOT NULL,
  mode VARBINARY(32) NOT NULL,
  lease_us BIGINT NOT NULL,
  entered_at DATETIME(6) NOT NULL,
  granted_at DATETIME(6),
  ends_at DATETIME(6) NOT NULL,
  keeper VARBINARY(64) NOT NULL,
  label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  pid INT UNSIGNED NOT NULL,
  PRIMARY KEY (name, order_no)
) ENGINE=InnoDB;
