-- A role that may add lines to the trail adds them only where the next one belongs: a far position would stop all later changes.
CREATE FUNCTION refuse_gap() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.position > 1 AND NOT EXISTS (SELECT FROM envelope_sidecar.trail WHERE position = NEW.position - 1) THEN
    RAISE check_violation USING MESSAGE = 'the trail has no line before this position';
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER refuse_gap AFTER INSERT ON trail FOR EACH ROW EXECUTE FUNCTION refuse_gap();
ALTER TABLE trail ENABLE ALWAYS TRIGGER refuse_gap;
