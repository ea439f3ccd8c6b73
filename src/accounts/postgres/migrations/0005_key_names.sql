-- What keys are called, and how they end.
ALTER TABLE api_keys
  ADD COLUMN name text CHECK (char_length(name) BETWEEN 1 AND 200),
  ADD COLUMN last_four text CHECK (last_four ~ '^[A-Za-z0-9_-]{4}$');
