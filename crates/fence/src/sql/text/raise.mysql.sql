-- Arguments: name, token, claim. Afterwards the row holds the highest pass: admitted if it is this one.
INSERT INTO lockkeeper_fence (name, token, claim) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE
  -- The claim first: assignments go from left to right, and this one needs the old token.
  claim = IF(token < VALUES(token), VALUES(claim), claim),
  token = GREATEST(token, VALUES(token))
