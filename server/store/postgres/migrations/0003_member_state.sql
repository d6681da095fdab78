-- What a node says of itself to the others. Nodes of the version before go on: they write nothing there.
ALTER TABLE carillon_members ADD COLUMN state text NOT NULL DEFAULT '';
COMMENT ON COLUMN carillon_members.state IS 'What the node says of itself: whether it is fit to own partitions, and whether it leaves.';
