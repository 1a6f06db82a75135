-- The side table of fences. Binary columns: no collation may take two names for one.
CREATE TABLE IF NOT EXISTS lockkeeper_fence (
  name  VARBINARY(256) PRIMARY KEY,
  token BIGINT NOT NULL,
  claim VARBINARY(32) NOT NULL
) ENGINE = InnoDB;
