package main

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// TestOutboxFlags: what is wrong is refused, and no error shows a password.
func TestOutboxFlags(t *testing.T) {
	many := make([]string, maxOutboxes+1)
	for wrong, all := range map[string][]string{
		"want NAME=URL":                    {"postgres://x:secret@localhost/x"},
		"a name has 1 to 63":               {"a.b=postgres://localhost/x"},
		"shop is given twice":              {"shop=postgres://localhost/x", "shop=postgres://localhost/y"},
		"other has the URL of another one": {"shop=postgres://localhost/x", "other=postgres://localhost/x"},
		"does not begin with postgres://":  {"shop=mysql://x:secret@localhost/x"},
		"shop: the URL of PostgreSQL":      {"shop=postgres://x:secret@localhost:port/x"},
		"33 are more than 32":              many,
	} {
		if feeds, err := outboxFeeds(all); feeds != nil || err == nil || !strings.Contains(err.Error(), wrong) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v; want %q", all, err, wrong)
		}
	}
	if feeds, err := outboxFeeds([]string{"shop=postgres://localhost/x", "b=postgresql://localhost/y"}); err != nil ||
		len(feeds) != 1 {
		t.Errorf("%d feeds, %v", len(feeds), err)
	}
}

// TestOutboxCommands installs, prints and lists.
func TestOutboxCommands(t *testing.T) {
	url := realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
	call := func(want int, words ...string) (out, errs string) {
		t.Helper()
		var o, e strings.Builder
		if code := execute(append([]string{"outbox"}, words...), newApp(strings.NewReader(""), &o, &e)); code != want {
			t.Errorf("%q ends with %d: %s", words, code, &e)
		}
		return o.String(), e.String()
	}
	if _, errs := call(1, "rejects", "--url", url); !strings.Contains(errs, "carillon outbox install") {
		t.Errorf("no outbox: %s", errs)
	}
	call(2, "install")
	call(2, "rejects", "--url", url, "--limit", "0")
	call(0, "install", "--url", url)
	if out, _ := call(0, "sql"); !strings.Contains(out, "FUNCTION carillon.put_job(job jsonb)") ||
		strings.Contains(out, "{{") {
		t.Error("the script has no function, or a place that is not filled in")
	}
	if out, _ := call(0, "rejects", "--url", url, "-o", "json"); !strings.Contains(out, `"rejects": []`) {
		t.Errorf("rejects: %s", out)
	}
	if out, _ := call(0, "waiting", "--url", url, "-o", "json"); !strings.Contains(out, `"waiting": []`) {
		t.Errorf("waiting: %s", out)
	}
	const id = "00000000-0000-4000-8000-00000000000a"
	for _, wrong := range [][]string{{}, {"x"}, {id, "--all"}, {"--reason", "x", "--all"}} {
		call(2, append([]string{"retry", "--url", url}, wrong...)...)
	}
	call(2, "waiting", "--url", url, "--limit", "0")
	if _, errs := call(1, "retry", "--url", url, id); !strings.Contains(errs, "no command "+id+" was refused") {
		t.Errorf("an id that is none: %s", errs)
	}
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), `INSERT INTO carillon.outbox_rejects (seq, id, namespace, name, given_at, retried,
		kind, field, reason) VALUES (1, $1, 'default', 'a', now(), 0, 'not_found', '', '')`, id); err != nil {
		t.Fatal(err)
	}
	if out, errs := call(0, "retry", "--url", url, "--reason", "not_found"); !strings.Contains(out+errs, "Tried again: 1.") {
		t.Errorf("retry: %s%s", out, errs)
	}
	if out, _ := call(0, "rejects", "--url", url, "-o", "json"); !strings.Contains(out, `"rejects": []`) {
		t.Errorf("rejects: %s", out)
	}
}
