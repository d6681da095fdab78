-- Times are UTC nanoseconds since 1970 unless their type says otherwise. The columns beside state and record are copies of what
-- is in there, for the indexes and for people.

CREATE TABLE carillon_meta (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    format     integer NOT NULL,
    partitions integer NOT NULL,
    mac_key    bytea NOT NULL,
    created    timestamptz NOT NULL DEFAULT now()
);

-- Who owns a partition: the row that fences every write. node is empty if nobody does. The term holds in the very row that was
-- written for it and while the server lives that gave it: in a copy that was restored, or on a replica that was promoted, it is not
-- in force.
CREATE TABLE carillon_owners (
    partition integer PRIMARY KEY,
    epoch     bigint NOT NULL DEFAULT 0,
    nonce     bigint NOT NULL DEFAULT 0,
    node      text NOT NULL DEFAULT '',
    renewed   timestamptz,
    until     timestamptz,
    server    timestamptz,
    place     text
) WITH (fillfactor = 20);

CREATE TABLE carillon_members (
    id       text COLLATE "C" PRIMARY KEY,
    address  text NOT NULL,
    http     text NOT NULL,
    sidecars text NOT NULL,
    capacity integer NOT NULL,
    nonce    bigint NOT NULL,
    renewed  timestamptz NOT NULL,
    until    timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Jobs (seq 0) and the pending runs that triggers made of them (seq > 0). due is null if nothing can happen; queue is empty
-- unless the record is staged (phase 2).
CREATE TABLE carillon_jobs (
    partition     integer NOT NULL,
    namespace     text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    seq           bigint NOT NULL,
    uid           uuid NOT NULL,
    class         smallint NOT NULL,
    phase         smallint NOT NULL,
    due           bigint,
    next          bigint NOT NULL,
    queue         text COLLATE "C" NOT NULL,
    live          boolean NOT NULL,
    run_scheduled bigint NOT NULL,
    run_cause     smallint NOT NULL,
    run_seq       bigint NOT NULL,
    run_due       bigint NOT NULL,
    attempt       integer NOT NULL,
    state         bytea NOT NULL,
    spec          bytea,
    labels        jsonb,
    PRIMARY KEY (partition, namespace, name, seq)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX carillon_jobs_due ON carillon_jobs (partition, class, due, namespace, name, seq) WHERE due IS NOT NULL;
CREATE INDEX carillon_jobs_staged ON carillon_jobs (partition, queue, class, run_due, namespace, name, seq) WHERE phase = 2;
CREATE INDEX carillon_jobs_live ON carillon_jobs (partition, uid, run_scheduled) WHERE live;

-- Finished runs. Status 6 is dead.
CREATE TABLE carillon_runs (
    partition integer NOT NULL,
    uid       uuid NOT NULL,
    scheduled bigint NOT NULL,
    cause     smallint NOT NULL,
    seq       bigint NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    status    smallint NOT NULL,
    attempt   integer NOT NULL,
    started   bigint NOT NULL,
    finished  bigint NOT NULL,
    expires   bigint NOT NULL,
    record    bytea NOT NULL,
    PRIMARY KEY (partition, uid, scheduled, cause, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX carillon_runs_job ON carillon_runs (partition, namespace, name, scheduled DESC, uid, cause, seq);
CREATE INDEX carillon_runs_dead ON carillon_runs (partition, namespace, finished DESC, uid, scheduled, cause, seq) WHERE status = 6;
CREATE INDEX carillon_runs_age ON carillon_runs (partition, expires, status);

-- What is neither job nor run: settings of namespaces, backfills, queues with parked runs.
CREATE TABLE carillon_small (
    partition integer NOT NULL,
    kind      smallint NOT NULL,
    key       bytea NOT NULL,
    value     bytea NOT NULL,
    PRIMARY KEY (partition, kind, key)
) WITH (fillfactor = 80);

-- For people.
CREATE VIEW carillon_job_list AS
SELECT namespace, name, NULLIF(seq, 0) AS pending_run,
    (ARRAY['scheduled', 'ready', 'staged', 'running', 'retrying', 'paused', 'waiting'])[phase + 1] AS phase,
    (ARRAY['critical', 'high', 'normal', 'low'])[class + 1] AS class,
    to_timestamp(due / 1e9) AS due, to_timestamp(NULLIF(next, 0) / 1e9) AS next_run, NULLIF(queue, '') AS queue,
    NULLIF(attempt, 0) AS attempt, labels, uid, partition
FROM carillon_jobs;

CREATE VIEW carillon_run_list AS
SELECT namespace, name, to_timestamp(scheduled / 1e9) AS scheduled,
    (ARRAY['scheduled', 'staged', 'running', 'retrying', 'succeeded', 'failed', 'dead', 'cancelled', 'skipped'])[status + 1] AS status,
    (ARRAY['schedule', 'trigger', 'backfill'])[cause + 1] AS cause, attempt,
    to_timestamp(NULLIF(started, 0) / 1e9) AS started, to_timestamp(NULLIF(finished, 0) / 1e9) AS finished,
    to_timestamp(NULLIF(expires, 0) / 1e9) AS expires, uid, partition
FROM carillon_runs;

COMMENT ON TABLE carillon_meta IS 'What the store was created with. mac_key is a secret: it signs tokens, and what nodes say to each other.';
COMMENT ON TABLE carillon_migrations IS 'The versions of these tables, and since when there is each.';
COMMENT ON TABLE carillon_owners IS 'Who owns each partition. Every write of a partition checks epoch, nonce, server and place.';
COMMENT ON COLUMN carillon_owners.epoch IS 'Number of the term; greater than all before, and at least the seconds since 1970 when it began.';
COMMENT ON COLUMN carillon_owners.nonce IS 'Random number of the term.';
COMMENT ON COLUMN carillon_owners.node IS 'Name of the owner; empty if there is none.';
COMMENT ON COLUMN carillon_owners.renewed IS 'When the lease was last given or renewed, by this server''s clock.';
COMMENT ON COLUMN carillon_owners.until IS 'When the lease ends and others may take the partition.';
COMMENT ON COLUMN carillon_owners.server IS 'When the server was started that gave the term.';
COMMENT ON COLUMN carillon_owners.place IS 'The file of the table and the transaction in which the lease was last given or renewed.';
COMMENT ON TABLE carillon_members IS 'The nodes of the cluster.';
COMMENT ON COLUMN carillon_members.capacity IS '0: it lives, and is to own nothing.';
COMMENT ON COLUMN carillon_members.nonce IS 'Random number of the process.';
COMMENT ON COLUMN carillon_members.until IS 'How long it lives if it is not heard of any more.';
COMMENT ON TABLE carillon_jobs IS 'Jobs (seq 0) and pending runs (seq > 0). Times are UTC nanoseconds since 1970. To read: carillon_job_list.';
COMMENT ON COLUMN carillon_jobs.due IS 'The earliest of what can happen next; null if nothing can.';
COMMENT ON COLUMN carillon_jobs.next IS 'Next scheduled time; 0 = none.';
COMMENT ON COLUMN carillon_jobs.queue IS 'Where a due run waits for somebody to take it; empty if none does.';
COMMENT ON COLUMN carillon_jobs.live IS 'There is an unfinished run.';
COMMENT ON COLUMN carillon_jobs.state IS 'Where the job stands, encoded. The columns before are copies of what is in it.';
COMMENT ON COLUMN carillon_jobs.spec IS 'The job as it was put, encoded: payload, target, schedule.';
COMMENT ON TABLE carillon_runs IS 'Finished runs. Times are UTC nanoseconds since 1970. To read: carillon_run_list.';
COMMENT ON COLUMN carillon_runs.expires IS 'When retention ends and the row is removed.';
COMMENT ON COLUMN carillon_runs.record IS 'The run, encoded. The columns before are copies of what is in it.';
COMMENT ON TABLE carillon_small IS 'Settings of namespaces, limits, backfills and the like, encoded, by a letter for what it is.';
COMMENT ON VIEW carillon_job_list IS 'Jobs and pending runs, for people.';
COMMENT ON VIEW carillon_run_list IS 'Finished runs, for people.';
