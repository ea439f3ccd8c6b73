-- What is read whole is bounded: with a line of 200 MB, a role that may add to the trail would stop all changes. Rows that exist are not
-- checked, because the table would be locked meanwhile.
ALTER TABLE trail ADD CONSTRAINT line_length CHECK (octet_length(line) <= 1048576) NOT VALID;
ALTER TABLE encryption
  ADD CONSTRAINT credentials_length CHECK (greatest(octet_length(key), octet_length(iv), octet_length(previous_key), octet_length(previous_iv)) <= 4096) NOT VALID;
ALTER TABLE receipts
  ADD CONSTRAINT receipt_length CHECK (greatest(octet_length(idempotency_key), octet_length(request), octet_length(receipt)) <= 1048576) NOT VALID;
