-- Arguments: name, token, claim. Rows changed: 1 if the pass is admitted, 0 if it is refused.
INSERT INTO lockkeeper_fence AS seen (name, token, claim) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET token = excluded.token, claim = excluded.claim
WHERE seen.token < excluded.token OR (seen.token = excluded.token AND seen.claim = excluded.claim)
