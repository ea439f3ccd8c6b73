-- Requests with each key by hour, as all sidecars count them.
CREATE TABLE key_hours (
  key_id text COLLATE "C" NOT NULL REFERENCES api_keys ON DELETE CASCADE,
  hour timestamptz NOT NULL,
  requests bigint NOT NULL,
  PRIMARY KEY (key_id, hour)
) WITH (fillfactor = 70);
CREATE INDEX ON key_hours (hour);

-- For every role that may use the schema, because a role that may delete rows may also lock their table.
CREATE FUNCTION forget_key_hours() RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $$DELETE FROM envelope_sidecar.key_hours WHERE hour < now() - interval '30 days'$$;
