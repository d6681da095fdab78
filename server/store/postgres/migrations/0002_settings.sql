-- What a node was started with, for the others to compare.
ALTER TABLE carillon_members ADD COLUMN settings text NOT NULL DEFAULT '';
