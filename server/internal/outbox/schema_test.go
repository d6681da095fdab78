package outbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillonhq/carillon/server/internal/outbox"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// wrong are jobs, and the field that the error names. A job that is no object itself stands for itself;
// otherwise its members are added to those of a right one, null takes one away.
var wrong = []struct{ job, field, says string }{
	{`null`, "", "must be an object"},
	{`[]`, "", "must be an object"},
	{`"x"`, "", "must be an object"},
	{`{"queue": "x"}`, "queue", "unknown field"},
	{`{"name": 3}`, "name", "must be a string"},
	{`{"name": "a:b"}`, "name", `has a ":"`},
	{`{"name": "a//b"}`, "name", "empty level"},
	{`{"name": "/a"}`, "name", "empty level"},
	{`{"name": "a/"}`, "name", "empty level"},
	{`{"name": "a/../b"}`, "name", "write another word"},
	{`{"name": "."}`, "name", "write another word"},
	{`{"name": "a\tb"}`, "name", "not printable"},
	{`{"name": "` + strings.Repeat("n", 513) + `"}`, "name", "513 bytes are more than 512"},
	{`{"name": "dapr/app/x/y"}`, "name", "kept for jobs with a target of kind dapr"},
	{`{"namespace": "a_b"}`, "namespace", "a character other than"},
	{`{"namespace": "` + strings.Repeat("n", 64) + `"}`, "namespace", "64 bytes are more than 63"},
	{`{"target": null}`, "target", "it is missing"},
	{`{"target": {}}`, "target", "it is missing"},
	{`{"target": "q"}`, "target", "must be an object"},
	{`{"target": {"worker": {"queue": "q"}, "http": {"url": "http://x"}}}`, "target", "it can be one only"},
	{`{"target": {"worker": {}}}`, "target.worker.queue", "missing"},
	{`{"target": {"worker": {"queue": ""}}}`, "target.worker.queue", "missing"},
	{`{"target": {"worker": {"queue": 1}}}`, "target.worker.queue", "must be a string"},
	{`{"target": {"worker": {"queue": "` + strings.Repeat("q", 513) + `"}}}`, "target.worker.queue", "more than 512"},
	{`{"target": {"worker": {"queue": "q", "name": "x"}}}`, "target.worker.name", "unknown field"},
	{`{"target": {"worker": "q"}}`, "target.worker", "must be an object"},
	{`{"target": {"http": {}}}`, "target.http.url", "missing"},
	{`{"target": {"http": {"url": "ftp://x"}}}`, "target.http.url", "must begin with http"},
	{`{"target": {"http": {"url": "http://x", "headers": {"a": 1}}}}`, "target.http.headers.a", "must be a string"},
	{`{"target": {"htpt": {"url": "http://x"}}}`, "target.htpt", "unknown field"},
	{`{"schedule": 5}`, "schedule", "must be a string"},
	{`{"schedule": "` + strings.Repeat("s", 1025) + `"}`, "schedule", "more than 1024"},
	{`{"due_time": 5}`, "due_time", "must be a string"},
	{`{"due_time": "1h", "dueTime": "2h"}`, "due_time", "given twice"},
	{`{"time_zone": {}}`, "time_zone", "must be a string"},
	{`{"repeats": "x"}`, "repeats", "must be a whole number"},
	{`{"repeats": 1.5}`, "repeats", "must be a whole number"},
	{`{"repeats": -1}`, "repeats", "is negative"},
	{`{"paused": "yes"}`, "paused", "must be true or false"},
	{`{"metadata": []}`, "metadata", "must be an object"},
	{`{"metadata": {"a": 1}}`, "metadata.a", "must be a string"},
	{`{"metadata": {"": "x"}}`, "metadata", "a key is empty"},
	{`{"metadata": {"a": "` + strings.Repeat("m", 65536) + `"}}`, "metadata", "65537 bytes are more than 65536"},
	{`{"labels": {"a=b": "x"}}`, "labels", `"=" in its key`},
	{`{"labels": {"a": "` + strings.Repeat("m", 257) + `"}}`, "labels", "a value of more than 256"},
	{`{"note": "` + strings.Repeat("n", 4097) + `"}`, "note", "more than 4096"},
	{`{"data": "` + strings.Repeat("d", 1<<20) + `"}`, "data", "more than 1048576"},
	{`{"data_base64": "?"}`, "data_base64", "not base64"},
	{`{"data_base64": 1}`, "data_base64", "must be a string"},
	{`{"data": 1, "data_base64": "AA=="}`, "data", "given twice"},
	{`{"data_base64": "` + strings.Repeat("AAAA", 349526) + `"}`, "data", "more than 1048576"},
	{`{"overlap": "sometimes"}`, "overlap", "is not one of serial, skip, allow, replace"},
	{`{"overlap": "skip"}`, "overlap", "no effect on a job without a schedule"},
	{`{"overlap": "skip"}`, "overlap", "no effect on a job without a schedule"},
	{`{"priority": 1}`, "priority", "is not one of"},
	{`{"depends_on": "a"}`, "depends_on", "must be a list"},
	{`{"depends_on": ["a", 1]}`, "depends_on[1]", "must be a string"},
	{`{"failure_policy": {"constant": {"interval": "1s"}, "drop": {}}}`, "failure_policy", "it can be one only"},
	{`{"failure_policy": {"constant": {"max_retries": "many"}}}`, "failure_policy.constant.max_retries", "whole number"},
	{`{"failure_policy": {"exponential": {"factor": "2"}}}`, "failure_policy.exponential.factor", "must be a number"},
	{`{"history": {"runs": "all"}}`, "history.runs", "whole number"},
	{`{"target": {"worker": {"queue": "q"}, "x": 1}}`, "target.x", "unknown field"},
	{`{"target": {"worker": []}}`, "target.worker", "must be an object"},
	{`{"target": {"http": {"url": 1}}}`, "target.http.url", "must be a string"},
	{`{"data": 1, "dataBase64": "AA=="}`, "data", "given twice"},
	{`{"name": "a\n"}`, "name", "not printable"},
	{`{"target": {"kafka": {}}}`, "target.kafka.cluster", "missing"},
	{`{"target": {"kafka": {"cluster": "c", "topic": ""}}}`, "target.kafka.topic", "missing"},
	{`{"target": {"amqp": {"broker": "a b"}}}`, "target.amqp.broker", "does not match"},
	{`{"target": {"nats": {"server": "n"}}}`, "target.nats.subject", "missing"},
	{`{"target": {"redis": {"server": "r", "stream": "` + strings.Repeat("s", 256) + `"}}}`, "target.redis.stream", "more than 255"},
	{`{"target": {"http": {"url": "http://x", "method": "TRACE"}}}`, "target.http.method", "is not one of POST"},
	{`{"target": {"http": {"url": "http://x", "headers": {"a b": "c"}}}}`, "target.http.headers.a b", "not a header's name"},
	{`{"timeout": "abc"}`, "timeout", "no duration such as"},
	{`{"failure_policy": {"constant": {"interval": "1"}}}`, "failure_policy.constant.interval", "no duration such as"},
	{`{"failure_policy": {"schedule": {}}}`, "failure_policy.schedule.cron", "missing"},
	{`{"failure_policy": {"pause_after": 65536}}`, "failure_policy.pause_after", "out of range: at least 0, at most 65535"},
	{`{"concurrency_key": "` + strings.Repeat("k", 257) + `"}`, "concurrency_key", "257 bytes are more than 256"},
	{`{"concurrencyKey": "a\u0001"}`, "concurrencyKey", "not printable"},
	{`{"depends_on": ["b", "b"]}`, "depends_on", "twice"},
	{`{"depends_on": [""]}`, "depends_on[0]", "missing"},
	{`{"history": {"runs": "-2"}}`, "history.runs", "out of range"},
	{`{"repeats": "3.0", "schedule": "@daily"}`, "repeats", "whole number"},
	{`{"repeats": 2}`, "repeats", "only a job with a schedule"},
	{`{"payload": "x"}`, "payload", "no reference to a payload"},
}

const rightJob = `{"name": "a/b", "due_time": "1h", "target": {"worker": {"queue": "q"}}}`

// with adds the members of an object to a right job.
func with(t *testing.T, members string) string {
	t.Helper()
	if !strings.HasPrefix(members, "{") {
		return members
	}
	var job, more map[string]any
	if err := errors.Join(json.Unmarshal([]byte(rightJob), &job), json.Unmarshal([]byte(members), &more)); err != nil {
		t.Fatal(err)
	}
	maps.Copy(job, more)
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wrongInputIsRefusedByTheFunction: with an error that names the field, in a single put and in one of
// many, and nothing is left in the outbox.
func wrongInputIsRefusedByTheFunction(t *testing.T, s *realserver.Postgres) {
	c := session(t, installed(t, s))
	refuses := func(sql, job, field, says string) {
		t.Helper()
		_, err := c.Exec(t.Context(), sql, job)
		e, ok := errors.AsType[*pgconn.PgError](err)
		switch {
		case !ok:
			t.Errorf("%.80s: %v", job, err)
		case e.Code != "22023" || e.ColumnName != field || !strings.Contains(e.Message, says) ||
			!strings.HasPrefix(e.Message, strings.TrimSuffix("carillon: "+field+": ", ": ")):
			t.Errorf("%.80s: %s in %q: %s; want %q in %q", job, e.Code, e.ColumnName, e.Message, says, field)
		}
	}
	for _, w := range wrong {
		job := with(t, w.job)
		refuses("SELECT carillon.put_job($1::text::jsonb)", job, w.field, w.says)
		refuses("SELECT carillon.put_jobs($1::text::jsonb)", "["+rightJob+","+job+"]",
			strings.TrimSuffix("jobs[1]."+w.field, "."), w.says)
	}
	for _, members := range []string{`{}`, `{"name": "orders/42.b"}`, `{"data": {"a": 1}, "note": "n", "schedule": "@daily"}`,
		`{"target": {"http": {"url": "https://example.com"}}, "data_base64": "AA==", "overlap": "serial"}`} {
		if !value[bool](t, c, "SELECT carillon.outbox_plain($1, 1048576)", with(t, members)) {
			t.Errorf("%s is checked field by field", members)
		}
	}
	for _, w := range wrong { // put_job asks this first
		if value[bool](t, c, "SELECT coalesce(carillon.outbox_plain($1, 1048576), false)", with(t, w.job)) {
			t.Errorf("%.80s is plain", w.job)
		}
	}
	refuses("SELECT carillon.put_jobs($1::text::jsonb)", rightJob, "jobs", "must be a list")
	refuses("SELECT carillon.delete_job($1)", "a//b", "name", "empty level")
	refuses("SELECT carillon.delete_job(NULLIF($1, 'x'))", "x", "name", "missing")
	refuses("SELECT carillon.delete_job('a', $1)", "a_b", "namespace", "a character other than")
	if n := value[int](t, c, "SELECT count(*) FROM carillon.outbox"); n != 0 {
		t.Errorf("%d commands are there", n)
	}
}

// right are members that REST takes, and what is said by its node alone.
var right = []string{
	`{}`, `{"name": null}`, `{"name": ""}`, `{"name": "é/ü"}`, `{"namespace": "Other-1"}`,
	`{"data": null}`, `{"data": {"a": [1, 2.50, "x"]}}`, `{"data_base64": "AAE="}`, `{"dataBase64": "_-8"}`,
	`{"schedule": "@every 1h", "overlap": "skip", "misfire": "all", "catch_up_limit": 3, "catchUpWindow": "1h"}`,
	`{"schedule": "0 9 * * *", "time_zone": "Europe/Berlin", "dst": "literal", "repeats": "5", "due_time": null}`,
	`{"overlap": "serial", "misfire": "latest"}`, `{"jitter": "5s", "ttl": "2h", "timeout": "10s", "lease": "10s"}`,
	`{"target": {"http": {"url": "https://example.com/x", "method": "PUT", "headers": {"a": "b"}}}}`,
	`{"target": {"http": null, "worker": {"queue": "q"}}}`,
	`{"failure_policy": {"exponential": {"initial": "1s", "factor": 2.5, "max_retries": 3}, "on_exhausted": "drop"}}`,
	`{"failurePolicy": {"drop": {}}}`, `{"priority": "critical", "concurrency_key": "k", "paused": true, "note": "n"}`,
	`{"history": {"runs": 5, "keep": "1h", "no_results": true}}`, `{"labels": {"a": "b"}, "metadata": {"x": "y"}}`,
	`{"timeout": " 1.5s ", "jitter": "PT1M", "lease": "+.5m"}`,
	`{"history": {"runs": "5"}}`,
	`{"depends_on": ["other"]}`, `{"repeats": 3.0, "schedule": "@daily"}`, `{"status": {"generation": 7}}`,
}

// whatIsRightIsTaken: by the function and then by the node.
func whatIsRightIsTaken(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	c := session(t, url)
	for i, r := range right {
		job := with(t, r)
		if strings.Contains(job, `"a/b"`) {
			job = strings.Replace(job, "a/b", fmt.Sprint("a/", i), 1)
		}
		if _, err := c.Exec(t.Context(), "SELECT carillon.put_job($1::text::jsonb)", job); err != nil {
			t.Errorf("%s: %v", job, err)
		}
	}
	node(t, "memory:", url)
	emptied(t, c)
	if rejects, err := outbox.Rejects(t.Context(), url, 100); err != nil || len(rejects) != 0 {
		t.Errorf("refused: %+v, %v", rejects, err)
	}
}

// whatOnlyTheNodeKnowsIsRejected: with the reason, and others go on.
func whatOnlyTheNodeKnowsIsRejected(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	c := session(t, url)
	for _, members := range []string{`{"name": "bad/1", "due_time": "soon"}`, `{"name": "bad/2", "schedule": "x y"}`,
		`{"name": "bad/1"}`, `{"name": "good"}`, `{"name": "bad/3", "target": {"exec": {"artifact": "a"}}}`} {
		if _, err := c.Exec(t.Context(), "SELECT carillon.put_job($1::text::jsonb)", with(t, members)); err != nil {
			t.Fatal(err)
		}
	}
	n := node(t, "memory:", url)
	emptied(t, c)
	rejects, err := outbox.Rejects(t.Context(), url, 10)
	var got []string
	for _, r := range rejects {
		got = append(got, r.Name+" "+r.Kind+" "+r.Field)
		if r.Reason == "" || r.Job == nil || r.GivenAt.IsZero() {
			t.Errorf("%+v", r)
		}
	}
	want := []string{"bad/3 invalid_argument target.exec", "bad/2 invalid_argument schedule",
		"bad/1 invalid_argument due_time"}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("rejects %q, %v; want %q", got, err, want)
	}
	if job(t, n, "good") == nil || job(t, n, "bad/1") == nil { // the second one of bad/1 is right
		t.Error("what is right is not there")
	}
}

// TestAnInstallationNeedsNoSuperuser: an owner installs twice, the application may call the functions and
// nothing else, the node reads. A newer version is left alone.
func TestAnInstallationNeedsNoSuperuser(t *testing.T) {
	s := realserver.StartPostgres(t, realserver.Volatile()...)
	url := s.Database(t)
	admin := session(t, url)
	exec := func(c *pgx.Conn, sql string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for _, role := range []string{"shop_owner", `"shop App"`, "carillon_node", "stranger"} {
		exec(admin, "CREATE ROLE "+role+" LOGIN")
	}
	exec(admin, "GRANT CREATE ON DATABASE test_1 TO shop_owner")
	as := func(role string) string { return strings.Replace(url, "postgres@", role+"@", 1) }
	for range 2 {
		if err := outbox.Install(t.Context(), as("shop_owner"), outbox.Roles{App: []string{"shop App"},
			Node: []string{"carillon_node"}}); err != nil {
			t.Fatal(err)
		}
	}
	app, put := session(t, as("shop%20App")), "SELECT carillon.put_job('"+rightJob+"')"
	exec(app, put)
	exec(app, "SELECT carillon.put_jobs('["+rightJob+"]'), carillon.delete_job('a/b')")
	exec(app, "SET search_path = public")
	for _, sql := range []string{"SELECT * FROM carillon.outbox", "DELETE FROM carillon.outbox_rejects",
		"SELECT carillon.outbox_add(gen_random_uuid(), 'default', 'x', NULL)", "UPDATE carillon.outbox_settings SET notify = false"} {
		if _, err := app.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s is allowed", sql)
		}
	}
	if _, err := session(t, as("stranger")).Exec(t.Context(), put); err == nil {
		t.Error("a stranger may put jobs")
	}
	node(t, "memory:", as("carillon_node"))
	emptied(t, admin)
	exec(admin, "UPDATE carillon.outbox_settings SET version = 99")
	if err := outbox.Install(t.Context(), as("shop_owner"), outbox.Roles{}); err == nil ||
		!strings.Contains(err.Error(), "newer version") {
		t.Errorf("a newer version: %v", err)
	}
}

// TestAPlantedSchemaIsRefused: who may create a schema does not get the rights of who installs.
func TestAPlantedSchemaIsRefused(t *testing.T) {
	s := realserver.StartPostgres(t, realserver.Volatile()...)
	admin := session(t, s.Database(t))
	if _, err := admin.Exec(t.Context(), "CREATE ROLE attacker LOGIN"); err != nil {
		t.Fatal(err)
	}
	for name, sql := range map[string]string{
		`the schema "carillon" belongs`: "CREATE SCHEMA carillon AUTHORIZATION attacker",
		"others than":                   "CREATE SCHEMA carillon; GRANT CREATE ON SCHEMA carillon TO PUBLIC",
		"there is something":            "CREATE SCHEMA carillon; CREATE TABLE carillon.outbox (); ALTER TABLE carillon.outbox OWNER TO attacker",
		"something in the sc":           "CREATE SCHEMA carillon; CREATE FUNCTION carillon.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; ALTER FUNCTION carillon.f OWNER TO attacker",
	} {
		url := s.Database(t)
		if _, err := session(t, url).Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
		if err := outbox.Install(t.Context(), url, outbox.Roles{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// emptied waits until no command is left.
func emptied(t *testing.T, c *pgx.Conn) {
	t.Helper()
	realserver.Eventually(t, func() error {
		if n := value[int](t, c, "SELECT count(*) FROM carillon.outbox"); n > 0 {
			return fmt.Errorf("%d commands are left", n)
		}
		return nil
	})
}

func value[T any](t testing.TB, c *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := c.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
