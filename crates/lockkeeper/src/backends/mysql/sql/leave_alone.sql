-- name, id: the claim leaves, if it is still the only one in the name's list. Nobody is left to be told.
UPDATE @names SET state = 'free'
  WHERE name = ? AND state = 'alone' AND id = ? AND ends_at > UTC_TIMESTAMP(6)
