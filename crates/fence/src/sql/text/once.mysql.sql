-- What has been done once. `result` is null while it is being done, and for ever if nobody told the end.
CREATE TABLE IF NOT EXISTS lockkeeper_once (
  name   VARBINARY(256) PRIMARY KEY,
  result LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  since  TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
) ENGINE = InnoDB;
