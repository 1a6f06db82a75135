-- No arguments. Makes the tables of version 2 for mode=lease; runs again without harm.
-- Who is alone in a name's list stands in the name's own row (state = 'alone'); otherwise all who are in it stand among the claims
-- (state = 'list'). What a row of another state says of a claim is over.
CREATE TABLE IF NOT EXISTS @names (
  name VARBINARY(256) NOT NULL PRIMARY KEY,
  last_no BIGINT UNSIGNED NOT NULL,
  state ENUM('free', 'alone', 'list') CHARACTER SET ascii NOT NULL,
  order_no BIGINT UNSIGNED,
  id BINARY(16),
  mode VARBINARY(32),
  lease_us BIGINT,
  granted_at DATETIME(6),
  ends_at DATETIME(6),
  keeper VARBINARY(64),
  label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  pid INT UNSIGNED
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
