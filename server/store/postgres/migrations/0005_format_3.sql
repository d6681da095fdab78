-- Records of format 3 have fields that programs of format 2 would drop when they write a record again. So no node that knows only
-- format 2 may live. One that opened the store before this would still join and claim: both ask for the key under the name that it had.
ALTER TABLE carillon_meta RENAME COLUMN signing_key TO token_key;
COMMENT ON TABLE carillon_meta IS 'What the store was created with. token_key is a secret: it signs tokens, and what nodes say to each other.';
UPDATE carillon_meta SET format = 3;
