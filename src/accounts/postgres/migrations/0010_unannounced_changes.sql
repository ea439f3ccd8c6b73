-- Any role that may connect can fill PostgreSQL's queue of notifications, or hold its lock for a minute, and a commit that notifies then fails
-- or waits. A change is marked as not announced if the queue is half full, and made without a notification if it is almost full, or if its
-- transaction asks for that. Sidecars look for marked ones. In between, those of the version before hear of them.
ALTER TABLE changes ADD COLUMN announced boolean NOT NULL DEFAULT true;
CREATE INDEX changes_unannounced ON changes (number) WHERE NOT announced;

-- Another text after each change that is marked. Numbers are given before the commit: one that commits late may have a lower one than those seen.
-- For every role that may use the schema, as last_change().
CREATE FUNCTION unannounced_changes() RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $$ SELECT count(*) || ' ' || coalesce(sum(number), 0) FROM envelope_sidecar.changes WHERE NOT announced $$;

CREATE OR REPLACE FUNCTION announce_change() RETURNS trigger LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  ids text[];
  may_wait boolean := coalesce(current_setting('envelope_sidecar.unannounced', true), '') <> 'on';
  usage float8 := pg_notification_queue_usage();
  change bigint;
BEGIN
  IF TG_TABLE_SCHEMA <> 'envelope_sidecar' THEN
    RAISE insufficient_privilege USING MESSAGE = 'this function is for the tables of envelope_sidecar';
  END IF;
  IF may_wait AND usage < 0.9 THEN
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
  END IF;
  INSERT INTO envelope_sidecar.changes (announced) VALUES (may_wait AND usage < 0.5) RETURNING number INTO change;
  IF change % 1000 = 0 THEN
    -- Rows that another change is deleting are left to it: no change waits for another one. An unannounced one must be found first.
    DELETE FROM envelope_sidecar.changes WHERE number IN (
      SELECT c.number FROM envelope_sidecar.changes AS c
      WHERE c.number <= change - CASE WHEN c.announced THEN 1000 ELSE 100000 END FOR UPDATE SKIP LOCKED);
  END IF;
  RETURN NULL;
END
$$;
