-- Carillon's outbox, version {{VERSION}}: a program puts jobs in the transaction in which it stores its rows.
-- It may be applied again, and over an older version. It needs PostgreSQL 13 or later, and no superuser: the
-- right to create a schema in this database, or to create in a schema "carillon" that is there.
-- Apply it in one transaction, as tools for migrations and carillon outbox install do.

SELECT pg_advisory_xact_lock(7161130512103026552); -- two that install at the same time

DO $$
BEGIN
  IF current_setting('server_version_num')::int < 130000 THEN
    RAISE EXCEPTION 'carillon: the outbox needs PostgreSQL 13 or later, this is %', current_setting('server_version');
  END IF;
  IF to_regnamespace('carillon') IS NULL THEN
    CREATE SCHEMA carillon;
  END IF;
  -- Whoever may create in the schema, or owns what is in it, could have the functions do what he likes, with the
  -- rights of their owner.
  IF EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = 'carillon'
      AND n.nspowner <> current_user::regrole
      AND n.nspowner <> (SELECT datdba FROM pg_database WHERE datname = current_database())
      AND NOT (SELECT rolsuper FROM pg_roles WHERE oid = n.nspowner)) THEN
    RAISE EXCEPTION 'carillon: the schema "carillon" belongs to a role that is neither %, nor the owner of the database, nor a superuser',
      current_user;
  END IF;
  IF EXISTS (SELECT FROM pg_namespace n, aclexplode(n.nspacl) AS a WHERE n.nspname = 'carillon'
      AND a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner
      AND (a.grantee = 0 OR NOT pg_has_role(current_user, a.grantee, 'USAGE'))) THEN
    RAISE EXCEPTION 'carillon: others than % may create in the schema "carillon": revoke that', current_user;
  END IF;
  IF EXISTS (SELECT FROM pg_class WHERE relnamespace = 'carillon'::regnamespace AND relowner <> current_user::regrole)
      OR EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'carillon'::regnamespace AND proowner <> current_user::regrole) THEN
    RAISE EXCEPTION 'carillon: there is something in the schema "carillon" that does not belong to %: install as its owner',
      current_user;
  END IF;
  IF to_regclass('carillon.outbox_settings') IS NOT NULL THEN
    IF (SELECT version FROM carillon.outbox_settings) > {{VERSION}} THEN
      RAISE EXCEPTION 'carillon: this outbox is of a newer version, %; this script is of version {{VERSION}}',
        (SELECT version FROM carillon.outbox_settings);
    END IF;
  END IF;
END
$$;

-- One row. An operator may change notify, max_data and patience.
CREATE TABLE IF NOT EXISTS carillon.outbox_settings (
  only_row bool PRIMARY KEY DEFAULT true CHECK (only_row),
  version  int NOT NULL,
  notify   bool NOT NULL DEFAULT true,                         -- a commit wakes the node
  max_data int NOT NULL DEFAULT 1048576 CHECK (max_data >= 0), -- bytes of a job's data
  patience interval NOT NULL DEFAULT '1 hour'                  -- how long refusals that may pass are tried again
);
INSERT INTO carillon.outbox_settings (version) VALUES ({{VERSION}})
  ON CONFLICT (only_row) DO UPDATE SET version = excluded.version;

-- Commands that are not done yet. Those of one name are done in the order of seq, which is that of their
-- commits. A command that is to be tried again is parked, and so are those that follow it with the same name:
-- whoever looks for what can be done now does not come across them. The first one that is parked of a name has
-- retry_at.
CREATE TABLE IF NOT EXISTS carillon.outbox (
  seq        bigint GENERATED ALWAYS AS IDENTITY,
  id         uuid NOT NULL,
  namespace  text NOT NULL,
  name       text NOT NULL,
  job        jsonb,                                            -- null: the job is deleted
  given_at   timestamptz NOT NULL DEFAULT clock_timestamp(),   -- relative times count from then
  retried    int NOT NULL DEFAULT 0,                           -- how often it was taken back from the rejects
  tries      int NOT NULL DEFAULT 0,                           -- that have failed, though a later one may not
  refused_at timestamptz,                                      -- the first time, for a reason that may pass
  parked     bool NOT NULL DEFAULT false,
  retry_at   timestamptz,
  problem    text,                                             -- of the last try
  PRIMARY KEY (parked, seq)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX IF NOT EXISTS outbox_parked ON carillon.outbox (namespace, name, seq) WHERE parked;
CREATE INDEX IF NOT EXISTS outbox_due ON carillon.outbox (retry_at) WHERE parked AND retry_at IS NOT NULL;

-- Commands that are done or refused, until Carillon has forgotten that they are: one row for many.
CREATE TABLE IF NOT EXISTS carillon.outbox_done (
  seq      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  done_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  commands jsonb NOT NULL                                      -- a list of [namespace, name, id]
);

-- Commands that Carillon has refused.
CREATE TABLE IF NOT EXISTS carillon.outbox_rejects (
  seq         bigint PRIMARY KEY,
  id          uuid NOT NULL,
  namespace   text NOT NULL,
  name        text NOT NULL,
  job         jsonb,
  given_at    timestamptz NOT NULL,
  retried     int NOT NULL,
  rejected_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  kind        text NOT NULL,
  field       text NOT NULL,
  reason      text NOT NULL
);

-- Programs call put_job, put_jobs and delete_job, which run with the rights of their owner and a fixed
-- search_path, so that nothing that another user has created is called in the place of what is meant. The
-- other functions are called by these alone.

CREATE OR REPLACE FUNCTION carillon.outbox_refuse(field text, reason text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
    MESSAGE = 'carillon: ' || CASE field WHEN '' THEN '' ELSE field || ': ' END || reason, COLUMN = field;
END
$$;

-- What an object may hold, by the name of its type: generated from the API.
CREATE OR REPLACE FUNCTION carillon.outbox_fields() RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $fields$ SELECT '{{FIELDS}}'::pg_catalog.jsonb $fields$;

-- What the API's description says of a text: its size, its pattern.
CREATE OR REPLACE FUNCTION carillon.outbox_check_text(field text, value text, rules jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF rules ? 'n' AND value = '' THEN
    PERFORM carillon.outbox_refuse(field, 'it is missing');
  ELSIF octet_length(value) > (rules ->> 'l')::int THEN
    PERFORM carillon.outbox_too_large(field, octet_length(value), (rules ->> 'l')::int);
  ELSIF value !~ (rules ->> 'p') THEN
    PERFORM carillon.outbox_refuse(field, rules ->> 's');
  END IF;
END
$$;

-- What it says of a value of any type.
CREATE OR REPLACE FUNCTION carillon.outbox_check_value(field text, value jsonb, rules jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  n    bigint;
  item record;
BEGIN
  CASE jsonb_typeof(value)
  WHEN 'array' THEN
    n := jsonb_array_length(value);
    IF n > (rules ->> 'c')::int THEN
      PERFORM carillon.outbox_refuse(field, format('%s are more than %s', n, rules ->> 'c'));
    ELSIF rules ? 'd' AND n > (SELECT count(DISTINCT e) FROM jsonb_array_elements(value) AS e) THEN
      PERFORM carillon.outbox_refuse(field, 'it has one of them twice');
    END IF;
    IF rules ? 'v' THEN
      FOR item IN SELECT * FROM jsonb_array_elements_text(value) WITH ORDINALITY AS e (value, at) LOOP
        PERFORM carillon.outbox_check_text(format('%s[%s]', field, item.at - 1), item.value, rules -> 'v');
      END LOOP;
    END IF;
  WHEN 'object' THEN
    n := (SELECT count(*) FROM jsonb_object_keys(value));
    IF n > (rules ->> 'c')::int THEN
      PERFORM carillon.outbox_refuse(field, format('%s are more than %s', n, rules ->> 'c'));
    END IF;
    IF rules ?| '{k,v}' THEN
      FOR item IN SELECT * FROM jsonb_each_text(value) LOOP
        PERFORM carillon.outbox_check_text(field || '.' || left(item.key, 64), item.key, rules -> 'k');
        PERFORM carillon.outbox_check_text(field || '.' || left(item.key, 64), item.value, rules -> 'v');
      END LOOP;
    END IF;
  WHEN 'boolean', 'null' THEN
    NULL;
  ELSE
    IF rules ?| '{min,max}' THEN
      IF (value #>> '{}')::numeric < (rules ->> 'min')::numeric OR (value #>> '{}')::numeric > (rules ->> 'max')::numeric THEN
        PERFORM carillon.outbox_refuse(field, format('%s is out of range: at least %s%s', left(value #>> '{}', 64),
          rules ->> 'min', ', at most ' || (rules ->> 'max')));
      END IF;
    ELSE
      PERFORM carillon.outbox_check_text(field, value #>> '{}', rules);
    END IF;
  END CASE;
END
$$;

-- The names, the types and the values of what an object holds.
CREATE OR REPLACE FUNCTION carillon.outbox_check_object(path text, object jsonb, fields jsonb, of text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  known jsonb := fields -> of;
  seen  text[] := '{}';
  kinds text[] := '{}';
  k     text;
  v     jsonb;
  f     jsonb;
  has   text;
  type  text;
BEGIN
  IF jsonb_typeof(object) <> 'object' THEN
    PERFORM carillon.outbox_refuse(rtrim(path, '.'), 'must be an object');
  END IF;
  FOR k, v IN SELECT * FROM jsonb_each(object) LOOP
    f := known -> k;
    IF f IS NULL THEN
      PERFORM carillon.outbox_refuse(path || left(k, 64), 'unknown field');
    END IF;
    has := jsonb_typeof(v);
    type := f ->> 't';
    CONTINUE WHEN has = 'null' AND k <> 'data'; -- null says nothing, but as a payload
    IF f ->> 'f' = ANY (seen) THEN
      PERFORM carillon.outbox_refuse(path || (f ->> 'f'), 'given twice, under two names');
    END IF;
    seen := seen || (f ->> 'f');
    IF f ? 'o' THEN
      kinds := kinds || k;
      IF cardinality(kinds) > 1 THEN
        PERFORM carillon.outbox_refuse(rtrim(path, '.'),
          format('both %s and %s are given; it can be one only', kinds[1], kinds[2]));
      END IF;
    END IF;
    CASE type
    WHEN 'any' THEN
      NULL;
    WHEN 'string' THEN
      IF has <> 'string' THEN
        PERFORM carillon.outbox_refuse(path || k, 'must be a string');
      END IF;
    WHEN 'bool' THEN
      IF has <> 'boolean' THEN
        PERFORM carillon.outbox_refuse(path || k, 'must be true or false');
      END IF;
    WHEN 'double' THEN
      IF has <> 'number' THEN
        PERFORM carillon.outbox_refuse(path || k, 'must be a number');
      END IF;
    WHEN 'integer', 'natural' THEN
      IF has NOT IN ('number', 'string') OR (v #>> '{}') !~ (CASE has WHEN 'string' THEN '^-?[0-9]+$'
          ELSE '^-?[0-9]+(\.0*)?$' END) THEN
        PERFORM carillon.outbox_refuse(path || k, 'must be a whole number');
      ELSIF type = 'natural' AND (v #>> '{}') LIKE '-%' THEN
        PERFORM carillon.outbox_refuse(path || k, format('%s is negative', left(v #>> '{}', 64)));
      END IF;
    WHEN 'enum' THEN
      IF has <> 'string' OR NOT f -> 'w' @> v THEN
        PERFORM carillon.outbox_refuse(path || k, format('%s is not one of %s', left(v::text, 64),
          (SELECT string_agg(word, ', ') FROM jsonb_array_elements_text(f -> 'w') AS word)));
      END IF;
    WHEN 'strings' THEN
      IF has <> 'array' THEN
        PERFORM carillon.outbox_refuse(path || k, 'must be a list of strings');
      END IF;
      IF v @? 'strict $[*] ? (@.type() != "string")' THEN
        PERFORM carillon.outbox_refuse(format('%s%s[%s]', path, k, e.at - 1), 'must be a string')
          FROM jsonb_array_elements(v) WITH ORDINALITY AS e (value, at) WHERE jsonb_typeof(e.value) <> 'string';
      END IF;
    WHEN 'map' THEN
      IF has <> 'object' THEN
        PERFORM carillon.outbox_refuse(path || k, 'must be an object whose values are strings');
      END IF;
      IF v @? 'strict $.* ? (@.type() != "string")' THEN
        PERFORM carillon.outbox_refuse(path || k || '.' || left(e.key, 64), 'must be a string')
          FROM jsonb_each(v) AS e WHERE jsonb_typeof(e.value) <> 'string';
      END IF;
    ELSE
      PERFORM carillon.outbox_check_object(path || k || '.', v, fields, type);
    END CASE;
    IF f ? 'r' THEN
      PERFORM carillon.outbox_check_value(path || k, v, f -> 'r');
    END IF;
  END LOOP;
  FOR k IN SELECT jsonb_array_elements_text(fields -> ('needed of ' || of)) LOOP
    IF NOT k = ANY (seen) THEN
      PERFORM carillon.outbox_refuse(path || k, 'it is missing');
    END IF;
  END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION carillon.outbox_too_large(field text, size bigint, most bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM carillon.outbox_refuse(field, format('%s bytes are more than %s', size, most));
END
$$;

CREATE OR REPLACE FUNCTION carillon.outbox_check_key(at text, namespace text, name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF namespace = '' THEN
    PERFORM carillon.outbox_refuse(at || 'namespace', 'it is missing');
  ELSIF octet_length(namespace) > 63 THEN
    PERFORM carillon.outbox_too_large(at || 'namespace', octet_length(namespace), 63);
  ELSIF namespace !~ '^[a-zA-Z0-9-]+$' THEN
    PERFORM carillon.outbox_refuse(at || 'namespace',
      format('"%s" has a character other than a-z, A-Z, 0-9 and -', namespace));
  END IF;
  IF name = '' THEN
    PERFORM carillon.outbox_refuse(at || 'name', 'it is missing');
  ELSIF octet_length(name) > 512 THEN
    PERFORM carillon.outbox_too_large(at || 'name', octet_length(name), 512);
  ELSIF position(':' IN name) > 0 THEN
    PERFORM carillon.outbox_refuse(at || 'name', format('"%s" has a ":", which begins a verb in the API', left(name, 64)));
  ELSIF name ~ '[[:cntrl:]]' THEN
    PERFORM carillon.outbox_refuse(at || 'name', 'it has a character that is not printable');
  ELSIF name ~ '(^|/)(/|$)' THEN
    PERFORM carillon.outbox_refuse(at || 'name',
      format('"%s" has an empty level: nothing stands before, between or after "/"', left(name, 64)));
  ELSIF name ~ '(^|/)\.\.?(/|$)' THEN
    PERFORM carillon.outbox_refuse(at || 'name',
      format('"%s" has a level "." or "..", which HTTP clients take out of a path; write another word', left(name, 64)));
  END IF;
END
$$;

-- What can be said of a job without Carillon. It says the rest when it does the command: carillon.outbox_rejects.
CREATE OR REPLACE FUNCTION carillon.outbox_check_job(at text, job jsonb, name text, max_data int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  target jsonb := job -> 'target';
  said   text;
  size   bigint;
  pair   record;
  field  text;
BEGIN
  IF pg_column_size(job) > max_data::bigint * 2 + 1048576 THEN
    PERFORM carillon.outbox_too_large(CASE at WHEN '' THEN 'job' ELSE rtrim(at, '.') END, pg_column_size(job),
      max_data::bigint * 2 + 1048576);
  END IF;
  IF target IS NULL OR jsonb_strip_nulls(target) IN ('null', '{}') THEN
    PERFORM carillon.outbox_refuse(at || 'target', 'it is missing; give worker, http, kafka, amqp, nats or redis');
  END IF;
  IF jsonb_typeof(target -> 'worker') = 'object' THEN
    said := target #>> '{worker,queue}';
    IF coalesce(said, '') = '' THEN
      PERFORM carillon.outbox_refuse(at || 'target.worker.queue', 'the queue''s name is missing');
    ELSIF octet_length(said) > 512 THEN
      PERFORM carillon.outbox_too_large(at || 'target.worker.queue', octet_length(said), 512);
    END IF;
  ELSIF jsonb_typeof(target -> 'http') = 'object' THEN
    said := target #>> '{http,url}';
    IF coalesce(said, '') = '' THEN
      PERFORM carillon.outbox_refuse(at || 'target.http.url', 'it is missing');
    ELSIF said !~* '^https?://[^/]' THEN
      PERFORM carillon.outbox_refuse(at || 'target.http.url', 'it must begin with http:// or https://, and have a host');
    END IF;
  END IF;
  IF job -> 'payload' NOT IN ('null', '""') AND (job -> 'data' IS NOT NULL
      OR coalesce(job ->> 'data_base64', job ->> 'dataBase64', '') <> '') THEN
    PERFORM carillon.outbox_refuse(at || 'payload', 'data is given, too; give one of them');
  END IF;
  IF coalesce(job ->> 'repeats', '') !~ '^0*$' AND coalesce(job ->> 'schedule', '') = '' THEN
    PERFORM carillon.outbox_refuse(at || 'repeats', 'only a job with a schedule has repeats; give a schedule or leave it out');
  END IF;
  IF starts_with(name, 'dapr/') AND target -> 'dapr' IS NULL THEN
    PERFORM carillon.outbox_refuse(at || 'name',
      format('"%s" begins with "dapr/", which is kept for jobs with a target of kind dapr', left(name, 64)));
  END IF;
  IF octet_length(job ->> 'schedule') > 1024 THEN
    PERFORM carillon.outbox_too_large(at || 'schedule', octet_length(job ->> 'schedule'), 1024);
  END IF;
  IF octet_length(job ->> 'note') > 4096 THEN
    PERFORM carillon.outbox_too_large(at || 'note', octet_length(job ->> 'note'), 4096);
  END IF;
  IF octet_length((job -> 'data')::text) > max_data THEN
    PERFORM carillon.outbox_too_large(at || 'data', octet_length((job -> 'data')::text), max_data);
  END IF;
  said := coalesce(job ->> 'data_base64', job ->> 'dataBase64');
  IF said IS NOT NULL THEN
    size := octet_length(rtrim(translate(said, E'\r\n', ''), '='));
    IF said !~ E'^[A-Za-z0-9+/_\r\n-]*[=\r\n]*$' OR size % 4 = 1 OR size % 4 = 0 AND position('=' IN said) > 0 THEN
      PERFORM carillon.outbox_refuse(at || 'data_base64', 'not base64');
    ELSIF size * 3 / 4 > max_data THEN
      PERFORM carillon.outbox_too_large(at || 'data', size * 3 / 4, max_data);
    END IF;
  END IF;
  IF job ?| '{metadata,labels}' THEN
    FOREACH field IN ARRAY '{metadata,labels}'::text[] LOOP
      CONTINUE WHEN jsonb_typeof(job -> field) IS DISTINCT FROM 'object'
        OR field = 'metadata' AND octet_length((job -> field)::text) <= 65536 AND NOT job -> field ? '';
      size := 0;
      FOR pair IN SELECT * FROM jsonb_each_text(job -> field) LOOP
        IF pair.key = '' THEN
          PERFORM carillon.outbox_refuse(at || field, 'a key is empty');
        ELSIF field = 'labels' AND (octet_length(pair.key) > 128 OR octet_length(pair.value) > 256) THEN
          PERFORM carillon.outbox_refuse(at || field,
            format('"%s" has a key of more than 128 bytes, or a value of more than 256', left(pair.key, 64)));
        ELSIF field = 'labels' AND (position('=' IN pair.key) > 0 OR pair.key || pair.value ~ '[[:cntrl:]]') THEN
          PERFORM carillon.outbox_refuse(at || field,
            format('"%s" has a "=" in its key, or a character that is not printable', left(pair.key, 64)));
        END IF;
        size := size + octet_length(pair.key) + octet_length(pair.value);
      END LOOP;
      IF size > 65536 THEN
        PERFORM carillon.outbox_too_large(at || field, size, 65536);
      END IF;
    END LOOP;
  END IF;
  IF job ?| '{overlap,misfire,dst,except,only}'
      AND coalesce(job ->> 'schedule', '') = '' THEN -- what has no effect is refused
    SELECT key INTO field FROM jsonb_each(job)
      WHERE key IN ('overlap', 'misfire', 'dst', 'except', 'only')
        AND value NOT IN ('null', '""', '[]', '"serial"', '"latest"', '"safe"') LIMIT 1;
    IF FOUND THEN
      PERFORM carillon.outbox_refuse(at || field,
        'it has no effect on a job without a schedule, which runs once; give a schedule or leave it out');
    END IF;
  END IF;
END
$$;

-- Whether a job is surely right: most are, and to say so takes a tenth of the time of the checks above, which decide
-- about all others. What is not mentioned here, or of another type, is none of these.
CREATE OR REPLACE FUNCTION carillon.outbox_plain(job jsonb, max_data int) RETURNS bool
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN jsonb_typeof(job) = 'object' THEN
    job - '{ {{STRINGS}},data,target,overlap,misfire,dst,priority}'::text[] = '{}'
    AND NOT (job - '{data,target}'::text[]) @? 'strict $.* ? (@.type() != "string")'
    AND (job -> 'target' = jsonb_build_object('worker', jsonb_build_object('queue', job #> '{target,worker,queue}'))
        AND jsonb_typeof(job #> '{target,worker,queue}') = 'string'
        AND octet_length(job #>> '{target,worker,queue}') BETWEEN 1 AND 512
        AND job #>> '{target,worker,queue}' !~ E'[\\u0001-\\u001f\\u007f-\\u009f]'
      OR job -> 'target' = jsonb_build_object('http', jsonb_build_object('url', job #> '{target,http,url}'))
        AND jsonb_typeof(job #> '{target,http,url}') = 'string'
        AND job #>> '{target,http,url}' ~ '^https?://[^/]' AND octet_length(job #>> '{target,http,url}') <= 8192)
    AND {{RULES}}
    AND NOT (job ? 'payload' AND job ?| '{data,data_base64}')
    AND CASE WHEN job ? 'name' THEN octet_length(job ->> 'name') <= 512 AND NOT starts_with(job ->> 'name', 'dapr/')
        AND job ->> 'name' ~ '^[A-Za-z0-9_-]+([/.][A-Za-z0-9_-]+)*$' ELSE true END
    AND CASE WHEN job ? 'namespace' THEN job ->> 'namespace' ~ '^[a-zA-Z0-9-]{1,63}$' ELSE true END
    AND CASE WHEN job ? 'data_base64' THEN NOT job ? 'data' AND octet_length(job ->> 'data_base64') * 3::bigint / 4 <= max_data
        AND job ->> 'data_base64' ~ '^[A-Za-z0-9+/_-]*=*$'
        AND octet_length(rtrim(job ->> 'data_base64', '=')) % 4 > (position('=' IN job ->> 'data_base64') > 0)::int - 1
        AND octet_length(rtrim(job ->> 'data_base64', '=')) % 4 <> 1
      WHEN job ? 'data' THEN octet_length((job -> 'data')::text) <= max_data ELSE true END
    AND CASE WHEN job ?| '{overlap,misfire,dst,priority}' THEN coalesce(job ->> 'overlap', 'serial') = 'serial'
        AND coalesce(job ->> 'misfire', 'latest') = 'latest' AND coalesce(job ->> 'dst', 'safe') = 'safe'
        AND coalesce(job ->> 'priority', 'normal') = 'normal' ELSE true END
    AND pg_column_size(job) <= max_data::bigint * 2 + 1048576
  ELSE false END
$$;

-- All checks of a put: an error, or true. at is where the job is in what was given.
CREATE OR REPLACE FUNCTION carillon.outbox_check(at text, job jsonb, max_data int) RETURNS bool
LANGUAGE plpgsql AS $$
DECLARE
  name text := coalesce(nullif(job ->> 'name', ''), 'made-up');
BEGIN
  PERFORM carillon.outbox_check_object(at, job, carillon.outbox_fields(), 'Job');
  PERFORM carillon.outbox_check_key(at, coalesce(nullif(job ->> 'namespace', ''), 'default'), name);
  PERFORM carillon.outbox_check_job(at, job, name, max_data);
  RETURN true;
END
$$;

-- Wakes the node that reads. To notify takes a lock of the whole database at the commit, so that no two such
-- transactions commit at the same time. So it is left out if nobody reads: who does holds lock 2. A node that has
-- much to do holds lock 4 and looks by itself: nobody need notify. Before it stops it releases that, and goes on
-- until it gets lock 3, as it does after it has begun to read: then no transaction is left that has not notified.
CREATE OR REPLACE FUNCTION carillon.outbox_wake(settings carillon.outbox_settings) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  -- Conditions, since PL/pgSQL evaluates them without a statement. Each of these locks is the session's, and outlives
  -- an abort: it is released in the expression that takes it, within which nothing looks whether the statement is
  -- cancelled.
  IF NOT settings.notify OR pg_advisory_xact_lock_shared(7161130512103026555) IS NULL THEN
    RETURN;
  ELSIF pg_try_advisory_lock_shared(7161130512103026554) AND pg_advisory_unlock_shared(7161130512103026554) THEN
    RETURN;
  ELSIF pg_try_advisory_lock_shared(7161130512103026556) AND pg_advisory_unlock_shared(7161130512103026556)
      AND pg_notify('carillon_outbox', '') IS NOT NULL THEN
    RETURN;
  END IF;
END
$$;

-- Adds a command. The lock of the name, which ends with the transaction, makes the order of seq that of the
-- commits, name by name; nobody else knows a name that was made up.
CREATE OR REPLACE FUNCTION carillon.outbox_add(id uuid, namespace text, name text, job jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF name = id::text OR pg_advisory_xact_lock(hashtextextended(namespace || '/' || name, 7161130512103026553)) IS NOT NULL THEN
    INSERT INTO carillon.outbox (id, namespace, name, job) VALUES (id, namespace, name, job);
  END IF;
END
$$;

-- put_job stores a job, as PUT /v1/namespaces/NAMESPACE/jobs/NAME does, once the transaction commits. The job
-- is the body of that call with namespace (default "default") and name (made up: the id). It returns the id
-- of the command.
CREATE OR REPLACE FUNCTION carillon.put_job(job jsonb) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  settings carillon.outbox_settings;
  id       uuid := gen_random_uuid();
BEGIN
  IF job IS NULL THEN
    PERFORM carillon.outbox_refuse('', 'the job is null');
  END IF;
  SELECT * INTO settings FROM carillon.outbox_settings;
  PERFORM carillon.outbox_wake(settings);
  IF carillon.outbox_plain(job, settings.max_data) OR carillon.outbox_check('', job, settings.max_data) THEN
    PERFORM carillon.outbox_add(id, coalesce(nullif(job ->> 'namespace', ''), 'default'),
      coalesce(nullif(job ->> 'name', ''), id::text), job - '{namespace,name,status}'::text[]);
  END IF;
  RETURN id;
END
$$;

-- put_jobs is put_job for each job of a list; it returns the ids in that order. Errors name the job:
-- jobs[3].target. Names are locked in their own order, so that two calls do not wait for each other. It is one
-- statement: the lock of a row's name is taken below the row's number.
CREATE OR REPLACE FUNCTION carillon.put_jobs(jobs jsonb) RETURNS uuid[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  settings carillon.outbox_settings;
  ids      uuid[];
BEGIN
  IF jobs IS NULL OR jsonb_typeof(jobs) <> 'array' THEN
    PERFORM carillon.outbox_refuse('jobs', 'must be a list');
  END IF;
  SELECT * INTO settings FROM carillon.outbox_settings;
  PERFORM carillon.outbox_wake(settings);
  WITH items AS MATERIALIZED (
    SELECT * FROM (
      SELECT e.ordinality AS at, e.value AS job, gen_random_uuid() AS id, nullif(e.value ->> 'name', '') AS named,
        coalesce(nullif(e.value ->> 'namespace', ''), 'default') AS namespace
      FROM jsonb_array_elements(jobs) WITH ORDINALITY AS e) AS i
    WHERE CASE WHEN carillon.outbox_plain(i.job, settings.max_data) THEN true
      ELSE carillon.outbox_check(format('jobs[%s].', i.at - 1), i.job, settings.max_data) END
  ), locked AS MATERIALIZED (
    SELECT o.*, CASE WHEN o.named IS NOT NULL THEN
        pg_advisory_xact_lock(hashtextextended(o.namespace || '/' || o.named, 7161130512103026553)) IS NOT NULL
      ELSE true END AS is_locked
    FROM (SELECT * FROM items ORDER BY namespace COLLATE "C", named COLLATE "C", at) AS o
  ), added AS (
    INSERT INTO carillon.outbox (id, namespace, name, job)
    SELECT l.id, l.namespace, coalesce(l.named, l.id::text), l.job - '{namespace,name,status}'::text[]
    FROM locked AS l WHERE l.is_locked
  )
  SELECT coalesce(array_agg(i.id ORDER BY i.at), '{}') INTO ids FROM items AS i;
  RETURN ids;
END
$$;

-- delete_job removes a job and cancels its runs in force, once the transaction commits. It is no error if
-- there is none then.
CREATE OR REPLACE FUNCTION carillon.delete_job(name text, namespace text DEFAULT 'default') RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  id       uuid := gen_random_uuid();
  settings carillon.outbox_settings;
BEGIN
  PERFORM carillon.outbox_check_key('', coalesce(namespace, ''), coalesce(name, ''));
  SELECT * INTO settings FROM carillon.outbox_settings;
  PERFORM carillon.outbox_wake(settings);
  PERFORM carillon.outbox_add(id, namespace, name, NULL);
  RETURN id;
END
$$;

-- retry_rejects has commands tried again that were refused, in the order in which they were given, after those
-- that have been given since. It returns how many there are. Their relative times count from when they were
-- given first.
CREATE OR REPLACE FUNCTION carillon.retry_rejects(ids uuid[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  settings carillon.outbox_settings;
  seqs     bigint[]; -- of those whose names are locked
  n        bigint;
BEGIN
  SELECT * INTO settings FROM carillon.outbox_settings;
  PERFORM carillon.outbox_wake(settings);
  seqs := ARRAY(SELECT r.seq FROM carillon.outbox_rejects AS r WHERE r.id = ANY (ids));
  -- In the order in which put_jobs takes names.
  PERFORM pg_advisory_xact_lock(hashtextextended(n.namespace || '/' || n.name, 7161130512103026553)) FROM (
    SELECT DISTINCT r.namespace COLLATE "C" AS namespace, r.name COLLATE "C" AS name
      FROM carillon.outbox_rejects AS r WHERE r.seq = ANY (seqs) ORDER BY 1, 2) AS n;
  WITH taken AS (DELETE FROM carillon.outbox_rejects AS r WHERE r.seq = ANY (seqs) RETURNING *)
    INSERT INTO carillon.outbox (id, namespace, name, job, given_at, retried)
    SELECT t.id, t.namespace, t.name, t.job, t.given_at, t.retried + 1 FROM taken AS t ORDER BY t.given_at, t.seq;
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END
$$;

-- Only who is granted it may put jobs: GRANT USAGE ON SCHEMA carillon TO app;
-- GRANT EXECUTE ON FUNCTION carillon.put_job, carillon.put_jobs, carillon.delete_job TO app;
REVOKE ALL ON FUNCTION carillon.put_job(jsonb), carillon.put_jobs(jsonb), carillon.delete_job(text, text),
  carillon.retry_rejects(uuid[]),
  carillon.outbox_add(uuid, text, text, jsonb), carillon.outbox_refuse(text, text), carillon.outbox_fields(),
  carillon.outbox_check_object(text, jsonb, jsonb, text), carillon.outbox_check_text(text, text, jsonb),
  carillon.outbox_check_value(text, jsonb, jsonb), carillon.outbox_too_large(text, bigint, bigint),
  carillon.outbox_wake(carillon.outbox_settings),
  carillon.outbox_check_key(text, text, text), carillon.outbox_check_job(text, jsonb, text, int),
  carillon.outbox_plain(jsonb, int), carillon.outbox_check(text, jsonb, int) FROM PUBLIC;
REVOKE ALL ON carillon.outbox, carillon.outbox_done, carillon.outbox_rejects, carillon.outbox_settings FROM PUBLIC;
