-- Runs of a store that was restored: up to which event all that a run did outside is known here. Null: all of it is.

ALTER TABLE runs ADD COLUMN known_seq INTEGER;
