-- Records of format 5 have a field that programs of format 4 would drop when they write a record again: where a job's payload is. So no
-- node that knows only format 4 may live. One that opened the store before this would still join and claim: both ask for the key under
-- the name that it had.
ALTER TABLE carillon_meta RENAME COLUMN key_4 TO key_5;
COMMENT ON TABLE carillon_meta IS 'What the store was created with. key_5 is a secret: it signs tokens, and what nodes say to each other. The name has the format since which it is called so.';
UPDATE carillon_meta SET format = 5;
