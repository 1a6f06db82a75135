-- What has been done once. `result` is null while it is being done, and for ever if nobody told the end.
CREATE TABLE IF NOT EXISTS lockkeeper_once (
  name   bytea PRIMARY KEY,
  result text,
  since  timestamptz NOT NULL DEFAULT now()
);
