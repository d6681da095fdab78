SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.carillon_jobs (
    partition integer NOT NULL,
    namespace text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    uid uuid NOT NULL,
    class smallint NOT NULL,
    phase smallint NOT NULL,
    due bigint,
    next bigint NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    live boolean NOT NULL,
    run_scheduled bigint NOT NULL,
    run_cause smallint NOT NULL,
    run_seq bigint NOT NULL,
    run_due bigint NOT NULL,
    attempt integer NOT NULL,
    state bytea NOT NULL,
    spec bytea,
    labels jsonb
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');
CREATE VIEW public.carillon_job_list AS
 SELECT carillon_jobs.namespace,
    carillon_jobs.name,
    NULLIF(carillon_jobs.seq, 0) AS pending_run,
    (ARRAY['scheduled'::text, 'ready'::text, 'staged'::text, 'running'::text, 'retrying'::text, 'paused'::text, 'waiting'::text])[(carillon_jobs.phase + 1)] AS phase,
    (ARRAY['critical'::text, 'high'::text, 'normal'::text, 'low'::text])[(carillon_jobs.class + 1)] AS class,
    to_timestamp((((carillon_jobs.due)::numeric / '1000000000'::numeric))::double precision) AS due,
    to_timestamp((((NULLIF(carillon_jobs.next, 0))::numeric / '1000000000'::numeric))::double precision) AS next_run,
    NULLIF(carillon_jobs.queue, ''::text) AS queue,
    NULLIF(carillon_jobs.attempt, 0) AS attempt,
    carillon_jobs.labels,
    carillon_jobs.uid,
    carillon_jobs.partition
   FROM public.carillon_jobs;
CREATE TABLE public.carillon_members (
    id text NOT NULL COLLATE pg_catalog."C",
    address text NOT NULL,
    http text NOT NULL,
    sidecars text NOT NULL,
    capacity integer NOT NULL,
    nonce bigint NOT NULL,
    renewed timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    settings text DEFAULT ''::text NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE public.carillon_meta (
    only_row boolean DEFAULT true NOT NULL,
    format integer NOT NULL,
    partitions integer NOT NULL,
    mac_key bytea NOT NULL,
    created timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT carillon_meta_only_row_check CHECK (only_row)
);
CREATE TABLE public.carillon_migrations (
    version integer NOT NULL,
    done timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE public.carillon_owners (
    partition integer NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    nonce bigint DEFAULT 0 NOT NULL,
    node text DEFAULT ''::text NOT NULL,
    renewed timestamp with time zone,
    until timestamp with time zone,
    server timestamp with time zone,
    place oid
)
WITH (fillfactor='20');
CREATE TABLE public.carillon_runs (
    partition integer NOT NULL,
    uid uuid NOT NULL,
    scheduled bigint NOT NULL,
    cause smallint NOT NULL,
    seq bigint NOT NULL,
    namespace text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    status smallint NOT NULL,
    attempt integer NOT NULL,
    started bigint NOT NULL,
    finished bigint NOT NULL,
    expires bigint NOT NULL,
    record bytea NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');
CREATE VIEW public.carillon_run_list AS
 SELECT carillon_runs.namespace,
    carillon_runs.name,
    to_timestamp((((carillon_runs.scheduled)::numeric / '1000000000'::numeric))::double precision) AS scheduled,
    (ARRAY['scheduled'::text, 'staged'::text, 'running'::text, 'retrying'::text, 'succeeded'::text, 'failed'::text, 'dead'::text, 'cancelled'::text, 'skipped'::text])[(carillon_runs.status + 1)] AS status,
    (ARRAY['schedule'::text, 'trigger'::text, 'backfill'::text])[(carillon_runs.cause + 1)] AS cause,
    carillon_runs.attempt,
    to_timestamp((((NULLIF(carillon_runs.started, 0))::numeric / '1000000000'::numeric))::double precision) AS started,
    to_timestamp((((NULLIF(carillon_runs.finished, 0))::numeric / '1000000000'::numeric))::double precision) AS finished,
    to_timestamp((((NULLIF(carillon_runs.expires, 0))::numeric / '1000000000'::numeric))::double precision) AS expires,
    carillon_runs.uid,
    carillon_runs.partition
   FROM public.carillon_runs;
CREATE TABLE public.carillon_small (
    partition integer NOT NULL,
    kind smallint NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL
)
WITH (fillfactor='80');
INSERT INTO public.carillon_jobs VALUES (0, 'default', 'a', 0, 'fe9b9c6e-14f4-551e-6dc9-6d6d18868579', 2, 0, 1826911639543097746, 1826911639543097746, '', false, 0, 0, 0, 0, 0, '\x0a10fe9b9c6e14f4551e6dc96d6d1886857910011992295bc1a174ea182192295bc1a174ea183002399229feee747e5a19499229feee747e5a19599229feee747e5a19', '\x2205383736306842080a060a046d61696c4a0b7b226a6f62223a2261227d52106170706c69636174696f6e2f6a736f6e', NULL);
INSERT INTO public.carillon_jobs VALUES (0, 'default', 'b', 0, 'e6debde6-3776-d2d2-d606-bbaa73c4c8c6', 2, 0, 1826911639573620606, 1826911639573620606, '', false, 0, 0, 0, 0, 0, '\x0a10e6debde63776d2d2d606bbaa73c4c8c61001197ee72cc3a174ea18217ee72cc3a174ea183002397ee7cff0747e5a19497ee7cff0747e5a19597ee7cff0747e5a19', '\x2205383736306842080a060a046d61696c4a0b7b226a6f62223a2262227d52106170706c69636174696f6e2f6a736f6e', NULL);
INSERT INTO public.carillon_jobs VALUES (0, 'default', 'c', 0, '6ba83426-0fbb-0266-a006-cb8b975631e4', 2, 0, 1826911639601409861, 1826911639601409861, '', false, 0, 0, 0, 0, 0, '\x0a106ba834260fbb0266a006cb8b975631e410011945efd4c4a174ea182145efd4c4a174ea1830023945ef77f2747e5a194945ef77f2747e5a195945ef77f2747e5a19', '\x2205383736306842080a060a046d61696c4a0b7b226a6f62223a2263227d52106170706c69636174696f6e2f6a736f6e', NULL);
INSERT INTO public.carillon_jobs VALUES (1, 'default', 'every', 0, '784f484b-2ed7-ca4b-b6dd-9ba23120a49a', 2, 0, 1795392000000000000, 1795392000000000000, '', false, 0, 0, 0, 0, 0, '\x0a10784f484b2ed7ca4bb6dd9ba23120a49a1001192448efc7a174ea18212448efc7a174ea18300239000094f88283ea18492448efc7a174ea1859000094f88283ea18', '\x0a06406461696c7942080a060a046d61696c', NULL);
INSERT INTO public.carillon_meta VALUES (true, 1, 2, '\xec43b07651d0d0dea4cc21dbe557c9fddb0c23d26a5613c95a714cb5585f7ec9', '2026-11-22 19:27:19.419319+00');
INSERT INTO public.carillon_migrations VALUES (1, '2026-11-22 19:27:19.419319+00');
INSERT INTO public.carillon_migrations VALUES (2, '2026-11-22 19:27:19.419319+00');
INSERT INTO public.carillon_owners VALUES (0, 1795375639, -6173818024954882753, '', NULL, NULL, '2026-11-22 19:27:18.935346+00', 16401);
INSERT INTO public.carillon_owners VALUES (1, 1795375639, 8689437206026091348, '', NULL, NULL, '2026-11-22 19:27:18.935346+00', 16401);
INSERT INTO public.carillon_small VALUES (0, 112, '\x70726f6265', '\x000000006b034217');
INSERT INTO public.carillon_small VALUES (1, 112, '\x70726f6265', '\x000000006b034217');
ALTER TABLE ONLY public.carillon_jobs
    ADD CONSTRAINT carillon_jobs_pkey PRIMARY KEY (partition, namespace, name, seq);
ALTER TABLE ONLY public.carillon_members
    ADD CONSTRAINT carillon_members_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.carillon_meta
    ADD CONSTRAINT carillon_meta_pkey PRIMARY KEY (only_row);
ALTER TABLE ONLY public.carillon_migrations
    ADD CONSTRAINT carillon_migrations_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.carillon_owners
    ADD CONSTRAINT carillon_owners_pkey PRIMARY KEY (partition);
ALTER TABLE ONLY public.carillon_runs
    ADD CONSTRAINT carillon_runs_pkey PRIMARY KEY (partition, uid, scheduled, cause, seq);
ALTER TABLE ONLY public.carillon_small
    ADD CONSTRAINT carillon_small_pkey PRIMARY KEY (partition, kind, key);
CREATE INDEX carillon_jobs_due ON public.carillon_jobs USING btree (partition, class, due, namespace, name, seq) WHERE (due IS NOT NULL);
CREATE INDEX carillon_jobs_live ON public.carillon_jobs USING btree (partition, uid, run_scheduled) WHERE live;
CREATE INDEX carillon_jobs_staged ON public.carillon_jobs USING btree (partition, queue, class, run_due, namespace, name, seq) WHERE (phase = 2);
CREATE INDEX carillon_runs_age ON public.carillon_runs USING btree (partition, expires, status);
CREATE INDEX carillon_runs_dead ON public.carillon_runs USING btree (partition, namespace, finished DESC, uid, scheduled, cause, seq) WHERE (status = 6);
CREATE INDEX carillon_runs_job ON public.carillon_runs USING btree (partition, namespace, name, scheduled DESC, uid, cause, seq);
