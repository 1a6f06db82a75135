-- As `take.sql`, with the same values in the same order, for a name whose row is there. The lock is asked for last, when the row
-- has been found to be this name's.
UPDATE @names SET held_no = last_no + 1, last_no = LAST_INSERT_ID(last_no + 1), waited_no = ?, connection = ?, lease_us = ?,
    granted_at = UTC_TIMESTAMP(6), label = ?, host = ?, pid = ?
  WHERE lock_name = ? AND name = ? AND IF(IS_FREE_LOCK(?) = 1, GET_LOCK(?, 0), 0) = 1
