-- Compactions: found through an index of their own, however long the history is.

-- name: newest_compaction(first, last)
-- The newest live request among the keys of a straight stretch: its ord and seq.
select key & 4294967295, seq from nodes
where label = 'ledger.compaction' and key between :first and :last
  and role is not null and deleted_us is null and body is not null
order by key desc limit 1
