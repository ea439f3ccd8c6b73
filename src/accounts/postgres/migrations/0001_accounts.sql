-- The tables of the accounts, in the schema envelope_sidecar. API keys are hashed before they come here and credentials
-- sealed; the constraints refuse what is not.

CREATE TABLE accounts (
  account_id text COLLATE "C" PRIMARY KEY CHECK (account_id ~ '^[A-Za-z0-9._-]{1,64}$'),
  name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 200),
  active boolean NOT NULL
);

CREATE TABLE api_keys (
  key_id text COLLATE "C" PRIMARY KEY CHECK (key_id ~ '^[A-Za-z0-9._-]{1,64}$'),
  account_id text COLLATE "C" NOT NULL REFERENCES accounts,
  -- The order in which they were made.
  position bigint GENERATED ALWAYS AS IDENTITY,
  prefix text NOT NULL CHECK (prefix IN ('pk_test_', 'pk_live_', 'sk_test_', 'sk_live_')),
  -- SHA-256 of the whole key.
  hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
  created_at timestamptz NOT NULL,
  expires_at timestamptz,
  revoked_at timestamptz
);
CREATE INDEX ON api_keys (account_id);

CREATE TABLE encryption (
  account_id text COLLATE "C" NOT NULL REFERENCES accounts,
  environment text NOT NULL CHECK (environment IN ('test', 'live')),
  enabled boolean NOT NULL,
  encoding text NOT NULL CHECK (encoding IN ('hex', 'base64')),
  key text CHECK (key LIKE 'sealed:v1:%'),
  iv text CHECK (iv LIKE 'sealed:v1:%'),
  format text CHECK (format IN ('text', 'base64')),
  created_at timestamptz,
  -- What is accepted besides until a grace is over: credentials, or plaintext where these are null.
  previous_key text CHECK (previous_key LIKE 'sealed:v1:%'),
  previous_iv text CHECK (previous_iv LIKE 'sealed:v1:%'),
  previous_format text CHECK (previous_format IN ('text', 'base64')),
  previous_until timestamptz,
  PRIMARY KEY (account_id, environment),
  CHECK (num_nulls(key, iv, format) IN (0, 3)),
  CHECK (key IS NOT NULL OR NOT enabled),
  CHECK (num_nulls(previous_key, previous_iv, previous_format) IN (0, 3)),
  CHECK (previous_key IS NULL OR previous_until IS NOT NULL)
);

-- Use is kept in tables of its own: these rows are written often, and sidecars are not notified of them.
CREATE TABLE key_uses (
  key_id text COLLATE "C" PRIMARY KEY REFERENCES api_keys ON DELETE CASCADE,
  used_at timestamptz NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE previous_uses (
  account_id text COLLATE "C" NOT NULL,
  environment text NOT NULL,
  -- The grace it was used in.
  until timestamptz NOT NULL,
  used_at timestamptz NOT NULL,
  PRIMARY KEY (account_id, environment),
  FOREIGN KEY (account_id, environment) REFERENCES encryption ON DELETE CASCADE
) WITH (fillfactor = 70);

CREATE TABLE audit (
  position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL,
  actor text NOT NULL,
  action text NOT NULL,
  account_id text COLLATE "C",
  details jsonb NOT NULL
);
CREATE INDEX ON audit (account_id, at);

-- The response to a request that is repeated under its idempotency key.
CREATE TABLE receipts (
  idempotency_key text COLLATE "C" PRIMARY KEY,
  request text NOT NULL,
  receipt text,
  made_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON receipts (made_at);

-- Tells all sidecars whose accounts a statement has changed, from any client: their ids in one or more notifications,
-- or "*". A payload must stay below 8000 bytes; an id has up to 64.
CREATE FUNCTION announce_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  ids text[];
BEGIN
  IF TG_OP = 'INSERT' THEN
    ids := ARRAY(SELECT DISTINCT account_id FROM new_rows ORDER BY account_id);
  ELSIF TG_OP = 'UPDATE' THEN
    ids := ARRAY(SELECT account_id FROM old_rows UNION SELECT account_id FROM new_rows ORDER BY account_id);
  ELSIF TG_OP = 'DELETE' THEN
    ids := ARRAY(SELECT DISTINCT account_id FROM old_rows ORDER BY account_id);
  ELSE
    ids := ARRAY['*'];
  END IF;
  PERFORM pg_notify('envelope_sidecar_accounts', string_agg(id, ' ' ORDER BY number))
    FROM unnest(ids) WITH ORDINALITY AS changed (id, number)
    GROUP BY (number - 1) / 100;
  RETURN NULL;
END
$$;

-- A new account has no keys yet: its insertion need not be told.
CREATE TRIGGER announce_update AFTER UPDATE ON accounts
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION announce_change();
CREATE TRIGGER announce_delete AFTER DELETE ON accounts
  REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION announce_change();
CREATE TRIGGER announce_truncate AFTER TRUNCATE ON accounts
  FOR EACH STATEMENT EXECUTE FUNCTION announce_change();

CREATE TRIGGER announce_insert AFTER INSERT ON api_keys
  REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION announce_change();
CREATE TRIGGER announce_update AFTER UPDATE ON api_keys
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION announce_change();
CREATE TRIGGER announce_delete AFTER DELETE ON api_keys
  REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION announce_change();
CREATE TRIGGER announce_truncate AFTER TRUNCATE ON api_keys
  FOR EACH STATEMENT EXECUTE FUNCTION announce_change();

CREATE TRIGGER announce_insert AFTER INSERT ON encryption
  REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION announce_change();
CREATE TRIGGER announce_update AFTER UPDATE ON encryption
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION announce_change();
CREATE TRIGGER announce_delete AFTER DELETE ON encryption
  REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION announce_change();
CREATE TRIGGER announce_truncate AFTER TRUNCATE ON encryption
  FOR EACH STATEMENT EXECUTE FUNCTION announce_change();
