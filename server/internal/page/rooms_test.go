//go:build unix

package page_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/server"
)

// room is an address of the page and what is to be seen there.
type room struct{ name, path, sees string }

func roomsOf(n *node) []room {
	return []room{
		{"overview", "/", "dead"},
		{"overview of a day", "/?span=day", "The last day and the next"},
		{"jobs", "/jobs", "reports/nightly"},
		{"jobs with a filter", "/jobs?prefix=reports%2F&phase=scheduled", "Every day at 02:30"},
		{"job", "/jobs/default/reports/nightly", "Every day at 02:30, Europe/Berlin"},
		{"job with runs", "/jobs/default/sync/orders", "Backfills"},
		{"job that waits", "/jobs/default/thumbnails/scene", "no worker serves"},
		{"job that is paused", "/jobs/default/kept/still", "until Monday"},
		{"job that is not there", "/jobs/default/not/there", "No run of it is kept"},
		{"new job", "/new?schedule=30+2+*+*+*&zone=Europe%2FBerlin", "Every day at 02:30"},
		{"copy of a job", "/new?from=sync%2Forders", "Copy sync/orders"},
		{"job that is edited", "/edit?job=imports%2Flater", "Its times stay as they are"},
		{"runs", "/runs", "imports/file"},
		{"runs to come", "/runs?status=scheduled", "etl/extract"},
		{"run", "/runs/default/" + n.runID("imports/file"), "500 Internal Server Error"},
		{"dead", "/dead", "1 run out of attempts"},
		{"queues", "/queues", "render"},
		{"workers", "/workers", "a-worker"},
		{"ingests", "/ingests", "No commands are taken"},
		{"graph", "/graph", "etl/load"},
		{"backfills", "/backfills?job=sync%2Forders", "sync/orders"},
		{"calendars", "/calendars", "public ones"},
		{"schedule", "/schedule?schedule=30+2+*+*+*&zone=Europe%2FBerlin&from=2027-03-25T00:00:00Z", "Clocks go forward 1 h"},
		{"cluster", "/cluster", "4 partitions"},
		{"settings", "/settings", "smtp"},
		{"nowhere", "/nowhere/at/all", "There is no room at"},
	}
}

// lower is text as it is compared: how a sentence begins does not matter.
func lower(s string) string { return strings.ToLower(s) }

// TestEachRoom: each shows what is there, light and dark, wide and narrow; nothing is wider than a phone; and axe
// has nothing to say.
func TestEachRoom(t *testing.T) {
	axe := axeCore(t)
	b := launch(t)
	n := start(t, server.Config{})
	n.furnish()
	p := b.open(t, n.url, 1440, 900)
	p.visit("/dead")
	p.sees("main", "imports/file") // from here on it is dead
	p.visit("/jobs/default/thumbnails/scene")
	p.sees("main", "No worker serves")
	for _, r := range roomsOf(n) {
		t.Run(r.name, func(t *testing.T) {
			p.t = t
			p.resize(1440, 900)
			p.scheme("light")
			p.visit(r.path)
			p.wait(`document.querySelector("main").textContent.toLowerCase().includes(` + js(lower(r.sees)) + `)`)
			for _, look := range []struct {
				scheme string
				wide   int
			}{{"light", 1440}, {"dark", 1440}, {"light", 390}} {
				p.scheme(look.scheme)
				p.resize(look.wide, 900)
				p.wait(`innerWidth === ` + js(look.wide))
				if look.wide == 390 {
					var beyond []string
					p.must(p.eval(`document.documentElement.scrollWidth <= innerWidth ? [] :
  [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll"))
    .slice(0, 5).map((e) => e.tagName + "." + e.className)`, &beyond))
					if len(beyond) > 0 {
						t.Errorf("%v are wider than a phone", beyond)
					}
				}
				if look.wide > 390 {
					accessible(t, p, axe, look.scheme)
				}
			}
			p.check()
		})
	}
	p.t = t
}

// axeCore is the source of axe-core, which npm has brought: with the packages of web/, or in the cache of .ci/run.
func axeCore(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{os.Getenv("CARILLON_PAGE_MODULES"), "web/node_modules",
		filepath.Join(cache, "carillon", "page", "node_modules")} {
		if text, err := os.ReadFile(filepath.Join(folder, "axe-core", "axe.min.js")); err == nil {
			return string(text)
		}
	}
	missing(t, "there is no axe-core: run npm ci in server/internal/page/web")
	return ""
}

// accessible holds a page against the rules of axe.
func accessible(t *testing.T, p *tab, axe, scheme string) {
	t.Helper()
	var found []struct {
		ID, Help string
		Nodes    []struct {
			HTML           string
			FailureSummary string
		}
	}
	p.must(p.eval(`(async () => {
  if (!window.axe) {`+axe+`}
  const r = await axe.run(document, {resultTypes: ["violations"]});
  return r.violations.map((v) => ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map((n) => ({html: n.html, failureSummary: n.failureSummary}))}));
})()`, &found))
	for _, v := range found {
		text, err := json.MarshalIndent(v.Nodes, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		t.Errorf("%s: %s: %s\n%s", scheme, v.ID, v.Help, text)
	}
}

// TestWhyLeadsToTheCause: where a run waits for a rate or a quota, the page says so and leads to it.
func TestWhyLeadsToTheCause(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	for space, settings := range map[string]object{
		"rated":    {"rate_limits": object{"api": object{"count": 1, "period": "24h"}}},
		"bounded":  {"quotas": object{"concurrent_runs": 1}},
		"bounded2": {"quotas": object{"runs": object{"count": 1, "period": "24h"}}},
	} {
		n.must("PUT", "/v1/namespaces/"+space, settings)
		for _, name := range []string{"one", "two"} {
			n.must("PUT", "/v1/namespaces/"+space+"/jobs/"+name, object{"due_time": "0s", "target": n.toSink("/wait"), "timeout": "10m",
				"concurrency_key": "api"})
		}
	}
	p := b.open(t, n.url, 1200, 900)
	for space, link := range map[string]string{"rated": "See the rates and quotas", "bounded": "See the quotas",
		"bounded2": "See the rates and quotas"} {
		job, run := n.held(space)
		p.visit("/jobs/" + space + "/" + job)
		p.sees(".why a", link)
		p.go_("/runs/" + space + "/" + run)
		p.click(".why a", link)
		p.sees("main h1", "Settings of "+space)
	}
}

// held waits until a limit keeps one of two jobs, and returns its name and the id of its run.
func (n *node) held(space string) (job, run string) {
	n.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for late := time.After(time.Minute); ; {
		for _, job := range []string{"one", "two"} {
			status := n.must("GET", "/v1/namespaces/"+space+"/jobs/"+job, nil)["status"].(object)
			hold, _ := status["hold"].(object)
			current, _ := status["current_run"].(object)
			if hold["code"] == "quota" || hold["code"] == "rate_limit" {
				return job, fmt.Sprint(current["id"])
			}
		}
		select {
		case <-again.C:
		case <-late:
			n.t.Fatalf("%s: no run waits", space)
		}
	}
}
