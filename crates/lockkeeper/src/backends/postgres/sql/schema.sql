-- No arguments. Makes the tables of version 1; runs in one transaction, and again without harm.
CREATE SEQUENCE IF NOT EXISTS @order;

CREATE TABLE IF NOT EXISTS @names (
  name text COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL,
  lock_key bigint UNIQUE
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS @claims (
  name text COLLATE "C" NOT NULL,
  order_no bigint NOT NULL,
  id bytea NOT NULL,
  mode text NOT NULL,
  lease_us bigint NOT NULL,
  entered_at timestamptz NOT NULL,
  granted_at timestamptz,
  ends_at timestamptz NOT NULL,
  keeper text NOT NULL,
  label text NOT NULL,
  host text NOT NULL,
  pid bigint NOT NULL,
  followed boolean NOT NULL DEFAULT false,
  session_pid integer,
  entered_no bigint,
  PRIMARY KEY (name, order_no)
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS @broken (
  broken_at timestamptz NOT NULL,
  name text COLLATE "C" NOT NULL,
  order_no bigint NOT NULL,
  label text NOT NULL,
  host text NOT NULL,
  pid bigint NOT NULL,
  why text NOT NULL
);

CREATE TABLE IF NOT EXISTS @meta (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  version integer NOT NULL,
  kind text NOT NULL
);
INSERT INTO @meta (version, kind) VALUES (1, '@kind') ON CONFLICT DO NOTHING;
