-- Both functions have the rights of the tables' owner. In a trigger of a caller's own table they would run the caller's code with these rights:
-- it may name a view `new_rows`, or give a column `position` a type whose cast is its own. Refused here because a restore without rights
-- gives PUBLIC the use of each function again.
CREATE OR REPLACE FUNCTION announce_change() RETURNS trigger LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  ids text[];
  change bigint;
BEGIN
  IF TG_TABLE_SCHEMA <> 'envelope_sidecar' THEN
    RAISE insufficient_privilege USING MESSAGE = 'this function is for the tables of envelope_sidecar';
  END IF;
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

CREATE OR REPLACE FUNCTION refuse_gap() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_TABLE_SCHEMA <> 'envelope_sidecar' THEN
    RAISE insufficient_privilege USING MESSAGE = 'this function is for the tables of envelope_sidecar';
  END IF;
  IF NEW.position > 1 AND NOT EXISTS (SELECT FROM envelope_sidecar.trail WHERE position = NEW.position - 1) THEN
    RAISE check_violation USING MESSAGE = 'the trail has no line before this position';
  END IF;
  RETURN NULL;
END
$$;
