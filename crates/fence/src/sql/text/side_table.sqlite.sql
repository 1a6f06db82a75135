-- The side table of fences. `name` is any text of up to 256 bytes, NUL included.
CREATE TABLE IF NOT EXISTS lockkeeper_fence (
  name  BLOB    PRIMARY KEY,
  token INTEGER NOT NULL,
  claim TEXT    NOT NULL
) WITHOUT ROWID;
