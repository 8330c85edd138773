-- What the conformance tests do to a SQLite file behind the store's back.

-- name: unknown_status
update sessions set status = 'sleeping';

-- name: broken_metadata
update sessions set metadata = cast('{"a":' as blob);

-- name: unknown_run_status
update runs set body = cast(replace(cast(body as text), '"id":"r1"', '"id":"r1","status":"lost"') as blob);

-- name: unknown_role
update nodes set body = cast(replace(cast(body as text), '"user"', '"wizard"') as blob);

-- name: unknown_role_number
update nodes set role = 9;

-- name: changed_text
update nodes set body = cast(replace(cast(body as text), 'hello', 'hallo') as blob);

-- name: changed_time
update nodes set created_us = created_us + 1;

-- name: cut_document
update documents set body = substr(body, 1, length(body) / 2) where name = 'document';
