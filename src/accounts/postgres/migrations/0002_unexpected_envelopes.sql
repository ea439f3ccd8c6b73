-- When an account that does not encrypt last sent an envelope.
CREATE TABLE unexpected_envelopes (
  account_id text COLLATE "C" NOT NULL REFERENCES accounts ON DELETE CASCADE,
  environment text NOT NULL CHECK (environment IN ('test', 'live')),
  seen_at timestamptz NOT NULL,
  PRIMARY KEY (account_id, environment)
) WITH (fillfactor = 70);
