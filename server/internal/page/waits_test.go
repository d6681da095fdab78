//go:build unix

package page_test

import (
	"net/url"
	"testing"

	"github.com/carillonhq/carillon/server/internal/server"
)

// TestWhyATriggeredRunWaits: the next time of the schedule is not all that there is to say.
func TestWhyATriggeredRunWaits(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("often", object{"schedule": "@every 24h", "target": toQueue("nobody")})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/jobs/default/often")
	p.sees("section", "It has not run yet")
	p.click(".acts button", "Trigger")
	p.confirm(nil, "Run it now", "It is due now: the run.")
	p.sees(".why", "Its next time is")
	p.sees(".why", "1 run waits besides: see it.")
	p.sees(".why", "No worker serves")
	p.wait(`!document.querySelector("main").textContent.includes("It has not run yet")`)
	p.click(".why a", "see it")
	p.wait(`location.pathname.startsWith("/runs/default/")`)
	p.visit("/queues")
	p.click("button", "Pause nobody")
	p.sees("dialog", "until it is resumed.")
	p.wait(`!document.querySelector("dialog").textContent.includes("in force")`)
}

// TestAJobIsGone: after several runs nothing tells whether it has ended.
func TestAJobIsGone(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("bulk/one", object{"schedule": "@every 24h", "due_time": "0s", "target": n.toSink("/ok")})
	n.runID("bulk/one")
	n.must("POST", jobs+"bulk/one:trigger", nil)
	n.until("two runs that have ended", func() bool {
		runs, _ := n.must("GET", jobs+"bulk/one:runs?status=succeeded", nil)["runs"].([]any)
		return len(runs) > 1
	})
	n.must("POST", "/v1/namespaces/default/jobs:bulk", object{"action": "delete", "prefix": "bulk/"})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/jobs/default/bulk/one")
	p.sees("main .trouble", "It has ended, or was deleted: nothing tells which.")
}

// TestWhereClocksChangeNext is said under next times that are all before it, and leads to those around it; on a phone, too.
func TestWhereClocksChangeNext(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("nightly", object{"schedule": "30 2 * * *", "time_zone": "America/New_York", "target": n.toSink("/ok")})
	p := b.open(t, n.url, 390, 900)
	p.visit("/jobs/default/nightly")
	p.sees("main .words", "Every day at 02:30, America/New_York")
	p.sees("main .times", "America/New_York")
	p.wait(`document.querySelector(".times td.here").offsetWidth === 0`)
	p.wait(`document.querySelector(".times .change") ||
  /^Clocks change on (Sun) \d{4}-\d\d-\d\d: see the times around it\.$/.test(document.querySelector("section .small-print").textContent)`)
	p.visit("/schedule?" + url.Values{"schedule": {"30 2 * * *"}, "zone": {"America/New_York"}, "from": {"2027-03-12"}}.Encode())
	p.sees(".times .change", "Clocks go forward 1 h")
	p.wait(`document.querySelector(".times .change td").getBoundingClientRect().right <= innerWidth`)
}

// TestTheReadersZoneIsOffered to a new job, whose words say which clocks are meant.
func TestTheReadersZoneIsOffered(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/new")
	p.enter("schedule", "30 2 * * *")
	p.sees(".preview .words", "Every day at 02:30, UTC")
	p.click("form .hint button", "Use Europe/Berlin")
	p.sees(".preview .words", "Every day at 02:30, Europe/Berlin")
	p.wait(`!document.querySelector("form .hint button")`)
	p.enter("failure_policy", "constant")
	p.wait(`document.getElementById("f-failure_policy.on_exhausted")`)
	p.enter("failure_policy.on_exhausted", "dead")
	p.enter("failure_policy", "drop")
	p.wait(`!document.getElementById("f-failure_policy.on_exhausted")`)
	p.enter("name", "once-tried")
	p.enter("target", "http")
	p.enter("target.http.url", n.sink+"/ok")
	p.store("Make the job")
	p.sees("main h1", "once-tried")
}
