-- What has been done once. `result` is null while it is being done, and for ever if nobody told the end.
CREATE TABLE IF NOT EXISTS lockkeeper_once (
  name   BLOB PRIMARY KEY,
  result TEXT,
  since  TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) WITHOUT ROWID;
