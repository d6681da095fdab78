-- Records of format 6 may be encrypted, which programs of format 5 would take for empty ones. So no node that knows only format 5 may
-- live. One that opened the store before this would still join and claim: both ask for the key under the name that it had.
ALTER TABLE carillon_meta RENAME COLUMN key_5 TO key_6;
COMMENT ON TABLE carillon_meta IS 'What the store was created with. key_6 is a secret: it signs tokens, and what nodes say to each other. The name has the format since which it is called so.';
UPDATE carillon_meta SET format = 6;
