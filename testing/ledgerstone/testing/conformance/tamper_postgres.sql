-- What the conformance tests do to a PostgreSQL store behind its back; names as in tamper.sql.

-- name: unknown_status
update sessions set status = 'sleeping';

-- name: broken_metadata
update sessions set metadata = convert_to('{"a":', 'UTF8');

-- name: unknown_run_status
update runs set body = convert_to(
  replace(convert_from(body, 'UTF8'), '"id":"r1"', '"id":"r1","status":"lost"'), 'UTF8');

-- name: unknown_role
update nodes set body = convert_to(
  replace(convert_from(body, 'UTF8'), '"user"', '"wizard"'), 'UTF8');

-- name: unknown_role_number
update nodes set role = 9;

-- name: changed_text
update nodes set body = convert_to(
  replace(convert_from(body, 'UTF8'), 'hello', 'hallo'), 'UTF8');

-- name: changed_time
update nodes set created_us = created_us + 1;

-- name: cut_document
update documents set body = substr(body, 1, length(body) / 2) where name = 'document';
