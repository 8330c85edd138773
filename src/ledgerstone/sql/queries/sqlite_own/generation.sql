-- Which log belongs to a file (backends/sqlite_marks.py).

-- name: write_mark(mark)
update generation set mark = :mark

-- name: read_mark()
select mark from generation
