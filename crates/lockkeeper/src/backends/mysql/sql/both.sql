-- No arguments. The tables that both modes have.
CREATE TABLE IF NOT EXISTS @broken (
  broken_at DATETIME(6) NOT NULL,
  name VARBINARY(256) NOT NULL,
  order_no BIGINT UNSIGNED NOT NULL,
  label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  pid INT UNSIGNED NOT NULL,
  why VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS @meta (
  only_row TINYINT NOT NULL PRIMARY KEY,
  version INT NOT NULL,
  kind VARBINARY(16) NOT NULL
) ENGINE=InnoDB;
INSERT IGNORE INTO @meta (only_row, version, kind) VALUES (1, @version, '@kind');
