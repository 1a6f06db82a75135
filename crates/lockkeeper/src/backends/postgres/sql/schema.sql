-- No arguments. Makes the tables of version 2; runs in one transaction, and again without harm.
CREATE SEQUENCE IF NOT EXISTS @order;

-- Who is alone in a list stands in the name's row: state is free, alone, or list, where the list is among the claims. Of
-- one who is alone, version is the number. What is written again and again stands together, and in no index.
CREATE TABLE IF NOT EXISTS @names (
  name text COLLATE "C" PRIMARY KEY,
  state text COLLATE "C" NOT NULL DEFAULT 'free',
  version bigint NOT NULL,
  id bytea,
  granted_at timestamptz,
  ends_at timestamptz,
  lease_us bigint,
  mode text,
  keeper text,
  label text,
  host text,
  pid bigint,
  session_pid integer,
  lock_key bigint UNIQUE
) WITH (fillfactor = 80);

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
  session_pid integer,
  grant_no bigint,
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
INSERT INTO @meta (version, kind) VALUES (2, '@kind') ON CONFLICT DO NOTHING;

-- Who holds and who waits, wherever it stands. One who is alone with a lock of the server's own is there only as long
-- as its session has that lock: the row of one whose session has ended is written over by the next.
DO $make$ BEGIN
  IF to_regclass('@locks') IS NULL THEN
    CREATE VIEW @locks AS
      SELECT n.name, n.version AS order_no, n.mode, n.label, n.host, n.pid, n.granted_at AS entered_at, n.granted_at,
        n.ends_at, n.id, n.lease_us, n.keeper, n.session_pid
      FROM @names n
      WHERE n.state = 'alone' AND (n.session_pid IS NULL OR EXISTS (
        SELECT FROM pg_locks l
        WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND l.pid = n.session_pid
          AND l.classid::bigint = (n.lock_key >> 32) & 4294967295 AND l.objid::bigint = n.lock_key & 4294967295
      ) AND NOT EXISTS (SELECT FROM @claims o WHERE o.name = n.name AND o.session_pid = n.session_pid))
    UNION ALL
      SELECT c.name, coalesce(c.grant_no, c.order_no), c.mode, c.label, c.host, c.pid, c.entered_at, c.granted_at,
        c.ends_at, c.id, c.lease_us, c.keeper, c.session_pid
      FROM @claims c
      WHERE c.session_pid IS NULL OR c.session_pid = ANY (ARRAY(SELECT a.pid FROM pg_stat_activity a));
  END IF;
END $make$;
