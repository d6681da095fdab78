//go:build unix

package page_test

import (
	"fmt"
	"testing"

	"github.com/carillonhq/carillon/server/internal/server"
)

// TestWhatRanIsCounted: what was skipped, or cancelled before it began, has not run. What failed leads to the runs that
// are counted, and not to older ones.
func TestWhatRanIsCounted(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("ok/one", object{"schedule": "@every 24h", "due_time": "0s", "target": n.toSink("/ok")})
	n.put("bad/one", object{"due_time": "0s", "target": n.toSink("/fail"),
		"failure_policy": object{"constant": object{"interval": "1s", "max_retries": 0}, "on_exhausted": "dead"}})
	n.put("wait/one", object{"due_time": "0s", "target": toQueue("nobody")})
	n.runID("ok/one") // what is skipped is the next one
	n.must("POST", jobs+"ok/one:skip", nil)
	n.must("POST", "/v1/namespaces/default/runs/"+n.runID("wait/one")+":cancel", nil)
	p := b.open(t, n.url, 1200, 900)
	p.visit("/")
	p.sees(".band", "1 succeeded, 1 failed, 2 skipped or cancelled")
	p.wait(`[...document.querySelectorAll(".tiles div")].some((e) => e.textContent === "Ran in the last hour2")`)
	p.wait(`[...document.querySelectorAll('section[aria-label="What failed"] a[href^="/runs?"]')].length === 2 &&
  [...document.querySelectorAll('section[aria-label="What failed"] a[href^="/runs?"]')].every((a) => {
    const from = Date.parse(new URL(a.href).searchParams.get("from"));
    return Math.abs(Date.now() - 3_600_000 - from) < 600_000;
  })`)
}

// TestCountsLeadToWhatTheyCount: the runs of that job with that error, and no others.
func TestCountsLeadToWhatTheyCount(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	fails := object{"constant": object{"interval": "1s", "max_retries": 0}, "on_exhausted": "dead"}
	for _, c := range []struct{ job, path, text string }{{"import", "/fail", "500"}, {"import", "/refuse", "409"}, {"import", "/refuse", "409"},
		{"imported", "/refuse", "409"}, {"each/1", "/refuse", "409"}, {"each/2", "/refuse", "409"}} {
		before := len(n.dead(c.job))
		n.put(c.job, object{"due_time": "0s", "target": n.toSink(c.path), "failure_policy": fails})
		n.until("another dead run of "+c.job, func() bool { return len(n.dead(c.job)) > before })
	}
	p := b.open(t, n.url, 1200, 900)
	for _, path := range []string{"/", "/dead"} {
		for _, c := range []struct{ job, error, count string }{{"import", "409", "2"}, {"import", "500", "1"}, {"imported", "409", "1"}, {"each/", "409", "2"}} {
			row := `[...document.querySelectorAll("table.simple tr")].find((e) => e.querySelector("a.name")?.textContent.replace("…", "") === ` +
				js(c.job) + ` && e.querySelector(".error")?.textContent.includes(` + js(c.error) + `))`
			p.visit(path)
			p.wait(row + `?.querySelector("a.number").textContent === ` + js(c.count))
			p.must(p.eval(row+`.querySelector("a.number").click()`, nil))
			p.sees("main h1", "Runs")
			p.wait(`document.querySelector(".filters .sum").textContent.split(" ")[0] === ` + js(c.count))
			p.wait(`[...document.querySelectorAll("table.list td.c-why")].every((e) => e.textContent.includes(` + js(c.error) + `))`)
		}
	}
}

// dead are the dead runs of a job.
func (n *node) dead(job string) []any {
	n.t.Helper()
	runs, _ := n.must("GET", jobs+job+":runs?status=dead", nil)["runs"].([]any)
	return runs
}

// TestHealthIsTrue: it does not say that all has begun while something waits, or is not known.
func TestHealthIsTrue(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/")
	p.sees(".health.good", "Everything that was due has begun.")

	n.must("POST", "/v1/namespaces/default/queues/worker/mail:pause", object{"note": "full"})
	n.put("wait/one", object{"due_time": "0s", "target": toQueue("mail")})
	p.sees(".health.warn", "but for what waits in queues that are paused")
	p.sees(".health.warn", "The queue mail is paused: 1 run waits in it.")
	n.must("POST", "/v1/namespaces/default/queues/worker/mail:resume", nil)
	n.must("POST", "/v1/namespaces/default/runs/"+n.runID("wait/one")+":cancel", nil)
	p.sees(".health.good", "Everything that was due has begun.")

	p.changes("/v1/queues", `(a) => { a.unheard = ["node-2"]; }`)
	p.sees(".health.warn", "Not heard from node-2: what waits there is not known. As far as is known, everything that was due has begun.")
	p.changes("/v1/cluster", `(a) => { delete a.partitions[1].node; }`)
	p.sees(".health.bad", "1 partition has no owner: their jobs do not fire. What was due elsewhere has begun.")
	p.changes("/v1/cluster", `(a) => {}`)
	p.sees(".health.good", "Everything that was due has begun.")
	p.must(p.eval(`{
  const before = window.fetch;
  window.fetch = (url, o) => new URL(url, location.href).pathname !== "/v1/cluster" ? before(url, o) :
    new Response(JSON.stringify({status: 403, code: "permission_denied", detail: "this needs the role viewer"}), {status: 403});
}`, nil))
	p.sees(".health.warn", "You may not see whether all partitions have owners. As far as is known, everything that was due has begun.")
}

// changes has what a call answers changed from now on, before the page has it, in place of an earlier change.
func (p *tab) changes(path, change string) {
	p.t.Helper()
	p.must(p.eval(fmt.Sprintf(`{
  const before = window.real ??= window.fetch;
  window.fetch = async (url, o) => {
    const r = await before(url, o);
    if (new URL(url, location.href).pathname !== %s || !r.ok) return r;
    const a = await r.json();
    (%s)(a);
    return new Response(JSON.stringify(a), {status: r.status});
  };
}`, js(path), change), nil))
}

// TestStopFinishesTheCallUnderWay: what has been sent is not broken off, as nobody would know what became of it; nothing
// more is sent.
func TestStopFinishesTheCallUnderWay(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	for _, name := range []string{"one", "two", "three"} {
		n.put(name, object{"schedule": "@every 24h", "target": toQueue("q")})
	}
	p := b.open(t, n.url, 1200, 900)
	p.visit("/jobs")
	for _, name := range []string{"one", "two", "three"} {
		p.click("table.list input", name)
	}
	p.must(p.eval(`{
  const real = window.fetch;
  window.sent = [];
  window.fetch = (url, o) => o?.method !== "POST" ? real(url, o) : new Promise((done, fail) => {
    o.signal?.addEventListener("abort", () => fail(new DOMException("broken off", "AbortError")));
    window.sent.push(url);
    window.release = () => real(url, o).then(done, fail);
  });
}`, nil))
	p.click(".filters button", "Pause 3 selected")
	p.sees("dialog", "3 jobs")
	p.click("dialog .buttons button", "Pause")
	p.wait(`window.sent.length === 1`)
	p.click("dialog .buttons button", "Stop")
	p.sees("dialog", "Stopping, once the call under way is answered")
	p.must(p.eval(`window.release()`, nil))
	p.sees("dialog", "Stopped after 1 of 3 changed")
	paused := 0
	for _, name := range []string{"one", "two", "three"} {
		if n.must("GET", jobs+name, nil)["paused"] == true {
			paused++
		}
	}
	if paused != 1 {
		t.Errorf("%d jobs are paused", paused)
	}
	p.click("dialog .buttons button", "Close")
	p.wait(`!document.querySelector("dialog[open]") && window.sent.length === 1`)
}
