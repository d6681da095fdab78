-- Records of format 2 have fields that programs of format 1 would drop when they write a record again. So no node that knows only
-- format 1 may live. One that opened the store before this would still join and claim: both ask for the key under the name that it had.
ALTER TABLE carillon_meta RENAME COLUMN mac_key TO signing_key;
COMMENT ON TABLE carillon_meta IS 'What the store was created with. signing_key is a secret: it signs tokens, and what nodes say to each other.';
UPDATE carillon_meta SET format = 2;

-- Early builds made tables of version 1 and 2 that lack columns, or have them with another type. No term is in force while nobody lives.
ALTER TABLE carillon_owners ADD COLUMN IF NOT EXISTS renewed timestamptz, ADD COLUMN IF NOT EXISTS server timestamptz,
    ADD COLUMN IF NOT EXISTS place text;
ALTER TABLE carillon_owners ALTER COLUMN place TYPE text USING NULL;
DELETE FROM carillon_members WHERE until <= clock_timestamp();
ALTER TABLE carillon_members ADD COLUMN IF NOT EXISTS http text NOT NULL, ADD COLUMN IF NOT EXISTS sidecars text NOT NULL,
    ADD COLUMN IF NOT EXISTS nonce bigint NOT NULL, ADD COLUMN IF NOT EXISTS renewed timestamptz NOT NULL;
