-- The directory of actors.

-- actors_all: every actor with its random name.
SELECT actor, name FROM actors WHERE tenant = :tenant ORDER BY name, actor

-- actor_places: where the directory says who an actor is.
SELECT stream, actor, seq FROM actors WHERE tenant = :tenant AND name = :name ORDER BY stream, seq
