-- no parameters
CREATE TABLE claims (
    name       TEXT    NOT NULL,
    order_no   INTEGER NOT NULL,
    id         BLOB    NOT NULL,
    mode       INTEGER NOT NULL, -- 0 exclusive, 1 shared, 2 permits
    take       INTEGER NOT NULL,
    out_of     INTEGER NOT NULL,
    keeper     BLOB    NOT NULL, -- whose pipe in alive/ tells whether its process lives
    granted_ns INTEGER,          -- when the claim was first told that it holds
    ends_ns    INTEGER NOT NULL, -- all times are nanoseconds since boot
    entered_ns INTEGER NOT NULL,
    label      TEXT    NOT NULL,
    host       TEXT    NOT NULL,
    pid        INTEGER NOT NULL,
    PRIMARY KEY (name, order_no)
) STRICT, WITHOUT ROWID;

CREATE TABLE broken (
    number     INTEGER PRIMARY KEY,
    at_ns      INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    order_no   INTEGER NOT NULL,
    label      TEXT    NOT NULL,
    host       TEXT    NOT NULL,
    pid        INTEGER NOT NULL,
    why        TEXT    NOT NULL
) STRICT;

CREATE TABLE clock (
    boottime_offset_ns INTEGER NOT NULL -- of the time namespace by whose clock all times are counted
) STRICT;

PRAGMA user_version = 2;
