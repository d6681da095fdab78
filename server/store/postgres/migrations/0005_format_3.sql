-- Records of format 3 have fields that programs of format 2 would drop when they write a record again. So no node that knows only
-- format 2 may live. One that opened the store before this would still join and claim: both ask for the key under the name that it had.
ALTER TABLE carillon_meta RENAME COLUMN signing_key TO token_key;
COMMENT ON TABLE carillon_meta IS 'What the store was created with. token_key is a secret: it signs tokens, and what nodes say to each other.';
UPDATE carillon_meta SET format = 3;

-- Lists of what is not scheduled, jobs and pending runs apart, and of what finished. Most jobs are scheduled.
CREATE INDEX carillon_jobs_phase ON carillon_jobs (partition, phase, namespace, name) WHERE phase <> 0 AND seq = 0;
CREATE INDEX carillon_jobs_pending ON carillon_jobs (partition, phase, namespace, name, seq) WHERE phase <> 0 AND seq <> 0;
CREATE INDEX carillon_runs_ended ON carillon_runs (partition, status, namespace, finished DESC, uid, scheduled, cause, seq);
DROP INDEX carillon_runs_dead;
