//go:build unix

package page_test

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/server"
)

// TestListsSayWhyNot: a job that is due and has not begun says why in the list, also on a phone, and so does the link of its
// queue; where a job waits for another it says what keeps that one.
func TestListsSayWhyNot(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.must("PUT", "/v1/namespaces/default", object{"concurrency_limits": object{"erp": 0}})
	n.put("sync/orders", object{"due_time": "0s", "target": n.toSink("/ok"), "concurrency_key": "erp"})
	n.put("etl/extract", object{"schedule": "@daily", "target": n.toSink("/ok"), "paused": true, "note": "its source moves"})
	n.put("etl/load", object{"due_time": "0s", "target": n.toSink("/ok"), "depends_on": []string{"etl/extract"}})
	p := b.open(t, n.url, 1440, 900)
	p.visit("/jobs")
	p.sees(".c-why", `concurrency key "erp"`)
	p.sees("td.c-time", "due ")
	p.resize(390, 844)
	p.wait(`[...document.querySelectorAll("td.c-name .under")].some((e) => e.textContent.includes("erp") && e.offsetWidth > 100)`)
	p.resize(1440, 900)
	p.visit("/queues")
	p.click("main .simple a", "127.0.0.1")
	p.sees("table.list td", "sync/orders")
	p.visit("/jobs/default/etl/load")
	p.sees(`section[aria-label="Waits for"]`, "etl/extract has yet to succeed. The job is paused: its source moves.")
	p.visit("/jobs?prefix=sync")
	p.wait(`document.querySelector(".filters .sum").textContent === "1 job"`)
	p.visit("/settings") // of a namespace that does not say when a queue is unserved
	p.sees(".facts", "A queue is unserved after5 min")
}

// TestAJobThatHasEnded is found by what is kept of it.
func TestAJobThatHasEnded(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("promo/friday", object{"due_time": "0s", "target": n.toSink("/ok")})
	n.until("the job has ended", func() bool {
		status, _ := n.ask("GET", jobs+"promo/friday", nil)
		return status == 404
	})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/jobs?prefix=promo")
	p.click("main .nothing a", "runs of such jobs")
	p.sees("main h1", "Runs")
	p.wait(`document.querySelector(".filters .sum").textContent === "1 run"`)
	p.click("table.list a", "promo/friday")
	p.sees(".trouble", "Its last run: succeeded")
	p.sees(".trouble", "most likely it has ended")
	p.visit("/jobs?prefix=other")
	p.sees("main", "No job is like that.")
	p.wait(`!document.querySelector("main .nothing a")`)
}

// TestAJobThatWasDeleted is told from one that has ended: by the event while the page is open, by a run that was ended with it,
// and by the record of who did what.
func TestAJobThatWasDeleted(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{Extensions: server.Extensions{Audit: server.Audit{To: server.AuditStore}}})
	for _, name := range []string{"seen", "recorded"} {
		n.put(name, object{"schedule": "@every 24h", "due_time": "0s", "target": n.toSink("/ok")})
		n.runID(name)
	}
	n.put("waits", object{"schedule": "@every 24h", "due_time": "0s", "target": toQueue("nobody")})
	n.until("a run that waits", func() bool {
		s, _ := n.must("GET", jobs+"waits", nil)["status"].(object)
		return s["phase"] == "staged" || s["phase"] == "ready"
	})
	p := b.open(t, n.url, 1200, 900)
	without := `{"detail": "not recorded", "code": "failed_precondition", "status": 409}`
	p.do("Page.addScriptToEvaluateOnNewDocument", object{"source": `if (location.search === "?unrecorded") {
  const real = window.fetch;
  window.fetch = (url, o) => new URL(url, location.href).pathname === "/v1/audit" ? Promise.resolve(new Response(` + js(without) + `, {status: 409})) : real(url, o);
}`}, nil)
	p.visit("/jobs/default/seen?unrecorded")
	p.sees(".live", "live")
	p.sees("table.list", "succeeded")
	n.must("DELETE", jobs+"seen", nil)
	p.sees(".trouble", "Deleted")

	n.must("DELETE", jobs+"waits", nil)
	p.visit("/jobs/default/waits?unrecorded")
	p.sees(".trouble", "Deleted")

	n.must("DELETE", "/v1/namespaces/default/jobs?prefix=reco", nil)
	p.visit("/jobs/default/recorded?unrecorded")
	p.sees(".trouble", "It has ended, or was deleted: nothing tells which.")
	p.visit("/jobs/default/recorded")
	p.sees(".trouble", "Deleted")
}

// TestCalendarsThatDelay: where calendars put a job off, it says so beside its next time; clocks that change far from its times
// are not mentioned.
func TestCalendarsThatDelay(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.must("PUT", "/v1/namespaces/default/calendars/freeze", object{"dates": []string{"2020-01-01/2098-12-31"}})
	n.must("PUT", "/v1/namespaces/default/calendars/past", object{"dates": []string{"2020-01-01"}})
	n.put("off", object{"schedule": "0 0 9 * * *", "time_zone": "Europe/Berlin", "except": []string{"freeze"}, "target": toQueue("q")})
	n.put("on", object{"schedule": "0 0 9 * * *", "time_zone": "Europe/Berlin", "except": []string{"past"}, "target": toQueue("q")})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/calendars")
	p.sees("main p", "1 date in UTC")
	p.visit("/jobs/default/off")
	p.sees(".why", "2099-01-01 09:00:00 CET. It would be sooner without its calendars: not on freeze.")
	p.sees(".times td", "2099-01-01")
	p.wait(`!document.querySelector("tr.change")`)
	p.visit("/jobs/default/on")
	p.sees(".why", "09:00:00")
	p.sees(".times td", "09:00:00")
	p.wait(`!document.querySelector(".why").textContent.includes("calendars")`)
	p.visit("/schedule?schedule=0+9+*+*+*&zone=Europe%2FBerlin&from=2027-03-28")
	p.sees("tr.change", "02:00 to 03:00 does not exist") // it begins with the day in the zone, before the change
	p.sees(".times td", "Sun 2027-03-28 09:00:00 CEST")
	p.wait(`[...document.querySelectorAll("#f-zone-list option")].some((o) => o.value === "Europe/Berlin")`)
}

// TestRedriveSaysWhat: the error and the jobs, and not the ids of runs; on a phone its button, and the jobs of runs, are in sight.
func TestRedriveSaysWhat(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	for _, name := range []string{"import/1", "import/2"} {
		n.put(name, object{"due_time": "0s", "target": n.toSink("/fail"),
			"failure_policy": object{"constant": object{"interval": "1s", "max_retries": 0}, "on_exhausted": "dead"}})
		n.deadRun(name, "500")
	}
	p := b.open(t, n.url, 390, 844)
	p.visit("/dead")
	p.sees("main", "2 jobs")
	p.wait(`[...document.querySelectorAll("main button[aria-label*='import/…']")].some((e) => e.getBoundingClientRect().right <= innerWidth)`)
	p.click("main button", "Redrive the dead runs of import/…")
	p.sees("dialog .about", "500 Internal Server Error")
	p.wait(`[...document.querySelectorAll("dialog .names li")].map((e) => e.textContent).sort().join() === "import/1,import/2"`)
	p.visit("/runs")
	p.wait(`[...document.querySelectorAll("td.c-name .name")].some((e) => e.textContent === "import/1" && e.offsetWidth > 40)`)
}

// TestTheme: what the reader chooses is in force at once, and before anything is drawn when the page is loaded again.
func TestTheme(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	p := b.open(t, n.url, 1200, 900)
	const light, dark = "rgb(251, 251, 250)", "rgb(20, 23, 26)"
	ground := func(want string) {
		t.Helper()
		p.wait(`getComputedStyle(document.body).backgroundColor === ` + js(want))
	}
	p.scheme("light")
	p.visit("/")
	ground(light)
	p.click("header button", "Change to light")
	p.scheme("dark")
	ground(light)
	p.click("header button", "Change to dark")
	p.scheme("light")
	ground(dark)
	p.do("Page.addScriptToEvaluateOnNewDocument", object{"source": `document.addEventListener("readystatechange", () => {
  window.first ??= document.documentElement.dataset.theme ?? "none";
})`}, nil)
	p.visit("/jobs")
	ground(dark)
	p.wait(`window.first === "dark"`) // before the program has run
	p.sees("header button", "")
	p.click("header button", "Change to as the system is")
	ground(light)
	p.visit("/")
	ground(light)
	p.wait(`window.first === "none" && localStorage.length === 0`)
}
