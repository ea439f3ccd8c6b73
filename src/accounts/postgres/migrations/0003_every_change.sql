-- The number of each change, so that a sidecar notices when an older database comes back. The row of the last change is
-- never deleted.
CREATE TABLE changes (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  made_at timestamptz NOT NULL DEFAULT now()
);

-- For every role that may use the schema, so that sidecars need no further grant.
CREATE FUNCTION last_change() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS 'SELECT coalesce(max(number), 0) FROM envelope_sidecar.changes';

-- As before, and numbers the change, for which roles that make changes need no further grant.
CREATE OR REPLACE FUNCTION announce_change() RETURNS trigger LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  ids text[];
  change bigint;
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
  INSERT INTO envelope_sidecar.changes DEFAULT VALUES RETURNING number INTO change;
  IF change % 1000 = 0 THEN
    -- Rows that another change is deleting are left to it: no change waits for another one.
    DELETE FROM envelope_sidecar.changes WHERE number IN (
      SELECT number FROM envelope_sidecar.changes WHERE number <= change - 1000 FOR UPDATE SKIP LOCKED);
  END IF;
  RETURN NULL;
END
$$;

-- Also in sessions whose session_replication_role is not `origin`.
ALTER TABLE accounts ENABLE ALWAYS TRIGGER announce_update;
ALTER TABLE accounts ENABLE ALWAYS TRIGGER announce_delete;
ALTER TABLE accounts ENABLE ALWAYS TRIGGER announce_truncate;
ALTER TABLE api_keys ENABLE ALWAYS TRIGGER announce_insert;
ALTER TABLE api_keys ENABLE ALWAYS TRIGGER announce_update;
ALTER TABLE api_keys ENABLE ALWAYS TRIGGER announce_delete;
ALTER TABLE api_keys ENABLE ALWAYS TRIGGER announce_truncate;
ALTER TABLE encryption ENABLE ALWAYS TRIGGER announce_insert;
ALTER TABLE encryption ENABLE ALWAYS TRIGGER announce_update;
ALTER TABLE encryption ENABLE ALWAYS TRIGGER announce_delete;
ALTER TABLE encryption ENABLE ALWAYS TRIGGER announce_truncate;
