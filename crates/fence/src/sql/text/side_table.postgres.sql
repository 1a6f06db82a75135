-- The side table of fences. `name` is any text of up to 256 bytes, NUL included.
CREATE TABLE IF NOT EXISTS lockkeeper_fence (
  name  bytea  PRIMARY KEY,
  token bigint NOT NULL,
  claim text   NOT NULL
);
