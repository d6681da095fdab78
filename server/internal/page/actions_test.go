//go:build unix

package page_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/server"
)

// confirm answers a dialog: what is filled in by label, the button, and what it says when it is done.
func (p *tab) confirm(fields map[string]string, button, says string) {
	p.t.Helper()
	p.wait(`document.querySelector("dialog[open]")`)
	for label, value := range fields {
		p.fill(label, value)
	}
	p.click("dialog .buttons button", button)
	p.sees("dialog [role=status]", says)
	p.click("dialog .buttons button", "Close")
	p.wait(`!document.querySelector("dialog[open]")`)
}

// TestEachActionOnAJob: what the page says is done, the API has.
func TestEachActionOnAJob(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.furnish()
	p := b.open(t, n.url, 1200, 900)
	p.visit("/jobs/default/reports/nightly")

	p.click(".acts button", "Trigger")
	p.confirm(map[string]string{"Data, as JSON": `{"by": "hand"}`}, "Run it now", "It is due now")
	p.sees("table.list", "succeeded")
	run := n.must("GET", "/v1/namespaces/default/runs/"+n.runID("reports/nightly"), nil)
	if run["cause"] != "trigger" {
		t.Errorf("triggered: %v", run)
	}

	p.click(".acts button", "Pause")
	p.confirm(map[string]string{"Why": "the disk is full"}, "Pause", "It is paused.")
	if j := n.must("GET", jobs+"reports/nightly", nil); j["paused"] != true || j["note"] != "the disk is full" {
		t.Errorf("paused: %v", j)
	}
	p.sees(".why", "the disk is full")

	p.click(".acts button", "Resume")
	p.confirm(nil, "Resume", "It goes on.")
	if j := n.must("GET", jobs+"reports/nightly", nil); j["paused"] == true {
		t.Errorf("resumed: %v", j)
	}

	p.click(".acts button", "Skip the next")
	p.confirm(nil, "Skip", "Skipped:")
	p.sees("table.list", "skipped")

	p.click(".acts button", "Backfill")
	p.confirm(map[string]string{"From": "2026-01-01T00:00:00", "To": "2026-01-31T00:00:00", "Most runs": "0.1"},
		"Begin the backfill", "30 runs")
	p.sees("section", "Backfills")
	p.click("section button", "Cancel the backfill")
	p.confirm(nil, "Cancel it", "It is cancelled.")
	backfills, _ := n.must("GET", jobs+"reports/nightly:backfills", nil)["backfills"].([]any)
	if len(backfills) != 1 || backfills[0].(object)["status"] != "cancelled" {
		t.Errorf("backfills: %v", backfills)
	}

	p.click(".acts button", "Delete")
	p.wait(`document.querySelector("dialog .buttons .danger").disabled`)
	p.confirm(map[string]string{"Type": "reports/nightly"}, "Delete the job", "It is deleted")
	if status, _ := n.ask("GET", jobs+"reports/nightly", nil); status != 404 {
		t.Errorf("deleted: %d", status)
	}
	p.sees("main .trouble", "Deleted")
	p.sees("main .trouble", "Its history, as far as it is kept")
}

// TestEachActionOnRunsAndQueues likewise.
func TestEachActionOnRunsAndQueues(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.furnish()
	p := b.open(t, n.url, 1200, 900)
	p.visit("/dead")
	p.sees("main", "imports/file")
	dead := n.runID("imports/file")
	n.put("mail/late", object{"schedule": "@every 24h", "due_time": "0s", "target": toQueue("render")})

	p.visit("/runs/default/" + dead)
	p.click(".acts button", "Redrive")
	p.confirm(nil, "Redrive", "It begins again.")
	p.sees("main", "before a redrive") // it is dead again
	if r := n.must("GET", "/v1/namespaces/default/runs/"+dead, nil); fmt.Sprint(r["attempt"]) != "2" {
		t.Errorf("redriven: %v", r)
	}

	p.visit("/runs/default/" + n.runID("slow/one"))
	p.click(".acts button", "Cancel")
	p.confirm(nil, "Cancel the run", "It is cancelled")
	p.sees(".heading", "cancelled")

	p.visit("/queues")
	p.sees("main", "render")
	p.click("button", "Pause render")
	p.confirm(map[string]string{"Why": "new model"}, "Pause", "It is paused.")
	p.sees("main", "paused: new model")
	p.click("button", "Resume render")
	p.confirm(nil, "Resume", "It goes on.")
	p.wait(`!document.querySelector("main").textContent.includes("paused: new model")`)
	p.click("button", "Purge render")
	p.sees("dialog", "2 due runs that wait would be cancelled.")
	p.confirm(map[string]string{"Type": "render"}, "Cancel what waits", "2 runs cancelled.")
	if r := n.must("GET", "/v1/namespaces/default/runs/"+n.runID("thumbnails/scene"), nil); r["status"] != "cancelled" {
		t.Errorf("purged: %v", r)
	}
}

// TestActingOnMany: the number and the names come first, and nothing is done before that is confirmed.
func TestActingOnMany(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.furnish()
	p := b.open(t, n.url, 1200, 900)
	p.visit("/dead")
	p.click("main button", "Redrive all")
	p.sees("dialog", "1 dead run")
	p.fill("Type", "1")
	p.click("dialog .buttons button", "Redrive")
	p.sees("dialog", "Done: 1 of 1 changed")
	p.click("dialog .buttons button", "Close")

	p.visit("/jobs?prefix=etl%2F")
	p.sees("main", "2 jobs")
	p.click(".filters button", "Pause all")
	p.sees("dialog", "2 jobs")
	p.sees("dialog .names", "etl/extract")
	if j := n.must("GET", jobs+"etl/load", nil); j["paused"] == true {
		t.Error("it was paused before it was confirmed")
	}
	p.click("dialog .buttons button", "Pause")
	p.sees("dialog", "Done: 2 of 2 changed")
	for _, name := range []string{"etl/load", "etl/extract"} {
		if j := n.must("GET", jobs+name, nil); j["paused"] != true {
			t.Errorf("%s: %v", name, j["status"])
		}
	}
	if j := n.must("GET", jobs+"sync/orders", nil); j["paused"] == true {
		t.Error("one that the filter leaves out was paused")
	}
	p.click("dialog .buttons button", "Close")
	p.click("table.list input", "etl/load")
	p.click(".filters button", "Resume 1 selected")
	p.sees("dialog", "1 job")
	p.click("dialog .buttons button", "Resume")
	p.sees("dialog", "Done: 1 of 1 changed")
	if j := n.must("GET", jobs+"etl/extract", nil); j["paused"] != true {
		t.Error("one that was not selected was resumed")
	}
}

// TestSettingsAndCalendars are changed as a whole, over what was read.
func TestSettingsAndCalendars(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.furnish()
	n.must("PUT", "/v1/namespaces/default", object{"concurrency_limits": object{"smtp": 3}, "unserved_after": "10m", "strict": true,
		"rate_limits": object{"api": object{"count": 5, "period": "90s", "burst": 7}},
		"quotas":      object{"jobs": 5000, "payload_bytes": 1 << 20, "concurrent_runs": 50, "runs": object{"count": 900}}})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/settings")
	p.sees(`section[aria-label="Rates"] tr`, "api5 in 1 min 30 s, at most 7 at once")
	for _, quota := range []string{"Jobs95\u202f000", "Bytes of data101\u202f048\u202f576", "Attempts at a time50",
		"Attempts that may begin900 in 1 s, at most 900 at once"} {
		p.sees(`section[aria-label="Quotas"] tr`, quota)
	}
	p.sees(`section[aria-label="Namespaces"] tr`, "Jobs: 5\u202f000; ")
	p.click("main button", "New limit")
	p.confirm(map[string]string{"Concurrency key": "disk", "Attempts": "2"}, "Set it", "It is in force.")
	p.sees(`section[aria-label="Limits"]`, "disk") // the settings have been read again
	p.click("main button", "Remove the limit of smtp")
	p.confirm(nil, "Remove it", "It is removed.")
	s := n.must("GET", "/v1/namespaces/default", nil)
	quotas, _ := s["quotas"].(object)
	if fmt.Sprint(s["concurrency_limits"]) != "map[disk:2]" || s["strict"] != true || !strings.HasPrefix(fmt.Sprint(s["unserved_after"]), "10m") ||
		quotas["jobs"] != "5000" || len(quotas) != 4 || fmt.Sprint(s["rate_limits"]) != "map[api:map[burst:7 count:5 period:1m30s]]" {
		t.Errorf("settings: %v", s)
	}
	p.visit("/calendars")
	p.click("main button", "New calendar")
	p.confirm(map[string]string{"Name": "freeze", "Dates": "2026-12-01\n2026-12-02"}, "Store it", "It is stored.")
	p.click("main button", "Change freeze")
	p.wait(`document.querySelector("#f-dates").value === "2026-12-01\n2026-12-02"`)
	p.fill("Dates", "soon")
	p.click("dialog .buttons button", "Store it")
	p.sees("dialog .trouble", "dates") // the API's own sentence
	p.click("dialog .buttons button", "Cancel")
	p.click("main button", "Delete freeze")
	p.confirm(map[string]string{"Type": "freeze"}, "Delete it", "It is deleted.")
	if status, _ := n.ask("GET", "/v1/namespaces/default/calendars/freeze", nil); status != 404 {
		t.Errorf("deleted: %d", status)
	}
}

// TestRedrivingOneError: of the dead runs of a job those with one error, and no others.
func TestRedrivingOneError(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	fails := object{"constant": object{"interval": "1s", "max_retries": 0}, "on_exhausted": "dead"}
	ids := map[string]string{}
	for _, c := range []struct{ path, timeout, text string }{{"/fail", "5s", "Internal"}, {"/refuse", "5s", "Conflict"},
		{"/wait", "1s", "within 1s"}, {"/wait", "2s", "within 2s"}} {
		n.put("import", object{"due_time": "0s", "timeout": c.timeout, "target": n.toSink(c.path), "failure_policy": fails})
		ids[c.text] = n.deadRun("import", c.text)
	}
	long := strings.Repeat("a long error ", 100)
	n.work("long", errors.New(long))
	n.put("import", object{"due_time": "0s", "target": toQueue("long"), "failure_policy": fails})
	ids[long] = n.deadRun("import", "a long error")
	p := b.open(t, n.url, 1200, 900)
	p.visit("/dead")
	p.sees("main", "5 runs out of attempts, in 4 groups")
	for _, c := range []struct{ name, dialog string }{
		{"Conflict", "1 dead run"}, {"timeout", "2 dead runs"}, {"a long error", "1 dead run"}} {
		p.click(`main button[aria-label*="`+c.name+`"]`, "Redrive")
		p.sees("dialog", c.dialog)
		p.click("dialog .buttons button", "Redrive")
		p.sees("dialog", "Done: ")
		p.click("dialog .buttons button", "Close")
	}
	attempt := func(text string) string {
		return fmt.Sprint(n.must("GET", "/v1/namespaces/default/runs/"+ids[text], nil)["attempt"])
	}
	for _, text := range []string{"Conflict", "within 1s", "within 2s", long} {
		n.until("another attempt after "+text, func() bool { return attempt(text) == "2" })
	}
	if got := attempt("Internal"); got != "1" {
		t.Errorf("the run with another error is in attempt %s", got)
	}
}
