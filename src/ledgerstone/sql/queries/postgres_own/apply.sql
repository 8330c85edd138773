-- Planned commands (docs/adr/0023).

-- name: apply_planned(who, now_us, mode, places, ints, texts, blobs)
-- All of a group in one call. Numbers and texts travel as one text each: drivers look at every element
-- of a list, for long.
select * from ledger_apply(:who, :now_us, :mode, cast(cast(:places as text) as bigint[]),
  cast(cast(:ints as text) as bigint[]), string_to_array(:texts, chr(31), chr(30)), :blobs)
