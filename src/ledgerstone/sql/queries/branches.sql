-- Named leaves besides main.

-- name: get_branch(number, name)
-- The stored leaf of a branch.
select leaf from branches where number = :number and name = :name

-- name: list_branches(number)
-- Names and leaves, by name.
select name, leaf from branches where number = :number order by name

-- name: put_branch(number, name, leaf)
-- Create or move a branch.
insert into branches (number, name, leaf) values (:number, :name, :leaf)
on conflict (number, name) do update set leaf = excluded.leaf

-- name: drop_branch(number, name)
-- Remove a branch; its nodes stay.
delete from branches where number = :number and name = :name
