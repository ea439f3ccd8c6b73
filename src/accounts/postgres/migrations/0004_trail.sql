-- The audit trail as a chain of lines: each is kept byte for byte and has the hash of the line before. `audit` stays for sidecars of
-- the version before; "accounts migrate" chains what is in it.
CREATE TABLE trail (
  -- Without gaps: who writes a line takes the position behind the last one.
  position bigint PRIMARY KEY CHECK (position > 0),
  line text NOT NULL
);
CREATE INDEX trail_account ON trail ((line::jsonb ->> 'account'), position);
-- The position in `audit` of an event of the version before.
CREATE UNIQUE INDEX trail_older ON trail (((line::jsonb ->> 'older')::bigint)) WHERE line::jsonb ? 'older';

-- Where the trail ends, and what stands at an earlier position. For every role that may use the schema.
CREATE FUNCTION trail_state(seen bigint, OUT last bigint, OUT last_hash text, OUT last_signed boolean, OUT seen_hash text)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(max(t.position), 0),
    (SELECT encode(sha256(convert_to(line, 'UTF8')), 'hex') FROM envelope_sidecar.trail ORDER BY position DESC LIMIT 1),
    (SELECT line ~ ',"sig":"[^"]+"[}]$' FROM envelope_sidecar.trail ORDER BY position DESC LIMIT 1),
    (SELECT encode(sha256(convert_to(line, 'UTF8')), 'hex') FROM envelope_sidecar.trail WHERE position = seen)
  FROM envelope_sidecar.trail t
$$;

-- Roles that add events to `audit` add them to the chain from now on.
DO $$
DECLARE
  role text;
BEGIN
  FOR role IN
    SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END
    FROM pg_class, aclexplode(relacl)
    WHERE oid = 'envelope_sidecar.audit'::regclass AND privilege_type = 'INSERT' AND grantee <> relowner
  LOOP
    EXECUTE 'GRANT SELECT, INSERT ON envelope_sidecar.trail TO ' || role;
  END LOOP;
END
$$;
