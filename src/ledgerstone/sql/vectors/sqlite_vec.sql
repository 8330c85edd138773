-- What the sqlite-vec engine asks of its database in memory. Rows are unit vectors by their place;
-- those of length zero are not here, since they have no distance from anything.

-- name: make_places()
-- The only table.
create table places (place integer primary key, vector blob not null)

-- name: put_place(place, vector)
-- A vector.
insert or replace into places (place, vector) values (:place, :vector)

-- name: drop_place(place)
-- A place becomes empty.
delete from places where place = :place

-- name: nearest_places(vector, count)
-- The nearest and their distances, the nearest first.
select place, vec_distance_cosine(vector, :vector) as distance from places
order by distance limit :count

-- name: near_places(vector, distance)
-- Everything that is not farther away than this.
select place from places where vec_distance_cosine(vector, :vector) <= :distance
