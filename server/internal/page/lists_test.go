//go:build unix

package page_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/carillonhq/carillon/server/internal/server"
)

// TestLateRunsAreNotAllRuns: the API knows no lateness, so nothing is offered for all runs of a list that looks at it.
func TestLateRunsAreNotAllRuns(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.furnish()
	p := b.open(t, n.url, 1200, 900)
	p.visit("/dead")
	p.sees("main", "imports/file")
	p.visit("/runs")
	p.sees(".acts button", "Cancel all")
	p.sees(".acts button", "Redrive all")
	p.changes("/v1/namespaces/default/runs", `(a) => {
  for (const r of a.runs) if (r.start_time) r.start_time = new Date(Date.parse(r.due_time) + 10_000).toISOString();
}`)
	p.fill("Later than", "5s")
	p.sees("table.list", "imports/file")
	p.wait(`!document.querySelector("main .acts button")`)
	p.must(p.eval(`document.querySelector("table.list input").click()`, nil))
	p.sees(".acts button", "Cancel 1 selected")
	p.must(p.eval(`document.querySelector("table.list input").click()`, nil))
	p.wait(`!document.querySelector("main .acts button")`)
	p.fill("Later than", "")
	p.sees(".acts button", "Cancel all")
}

// held has answers about a path kept back from the page until window.release() is called, and notes the events that it hears.
const held = `{
  const real = window.fetch;
  window.heard = "";
  window.fetch = async (url, o) => {
    const r = await real(url, o), path = new URL(url, location.href).pathname;
    if (path.endsWith("/events:watch")) {
      window.listens = true;
      const [theirs, ours] = r.body.tee(), reader = ours.pipeThrough(new TextDecoderStream()).getReader();
      (async () => { for (let c; !(c = await reader.read()).done;) window.heard += c.value; })().catch(() => {});
      return new Response(theirs, {status: r.status, headers: r.headers});
    }
    if (window.holds && path === window.holds) await new Promise((done) => { window.release = () => { window.holds = ""; done(); }; });
    return r;
  };
}`

// TestAnEventWhileAListAsksIsNotLost: what came after the node had answered, and before the page had the answer.
func TestAnEventWhileAListAsksIsNotLost(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("first", object{"schedule": "@every 24h", "target": n.toSink("/ok")})
	p := b.open(t, n.url, 1200, 900)
	p.do("Page.addScriptToEvaluateOnNewDocument", object{"source": held}, nil)
	p.visit("/queues")
	p.wait(`window.listens`)
	p.must(p.eval(`{ window.holds = "/v1/namespaces/default/jobs"; }`, nil))
	p.go_("/jobs")
	p.wait(`window.release`)
	p.wait(`performance.now() > 2000`) // what is asked for again is not put off to after the answer
	n.put("second", object{"schedule": "@every 24h", "target": n.toSink("/ok")})
	p.wait(`window.heard.includes("second")`)
	p.must(p.eval(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done))))`, nil))
	p.must(p.eval(`window.release()`, nil))
	p.sees("table.list", "first")
	p.sees("table.list", "second")
}

// TestErrorsOfOtherCodesAreOtherErrors: a number of three digits is what went wrong, a longer one may be an id. Names of jobs
// that differ in numbers are one kind all the same.
func TestErrorsOfOtherCodesAreOtherErrors(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	for i, text := range []string{"exit status 1", "exit status 137", "exit status 137", "no row 10001", "no row 10002"} {
		queue := fmt.Sprintf("q%d", i)
		n.work(queue, errors.New(text))
		n.put(fmt.Sprintf("many/%d", i), object{"due_time": "0s", "target": toQueue(queue),
			"failure_policy": object{"constant": object{"interval": "1s", "max_retries": 0}, "on_exhausted": "dead"}})
		n.deadRun(fmt.Sprintf("many/%d", i), text)
	}
	p := b.open(t, n.url, 1200, 900)
	p.visit("/dead")
	p.sees(".lead", "5 runs out of attempts, in 3 groups")
}

// TestRunsWithoutErrorsLeadToThemselves: filters look at errors, not at what else is shown as why a run ended.
func TestRunsWithoutErrorsLeadToThemselves(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("single", object{"due_time": "0s", "target": n.toSink("/fail"),
		"failure_policy": object{"constant": object{"interval": "1s", "max_retries": 0}, "on_exhausted": "dead"}})
	id := n.deadRun("single", "500")
	p := b.open(t, n.url, 1200, 900)
	p.visit("/queues")
	p.changes("/v1/namespaces/default/runs", `(a) => {
  for (const r of a.runs) { delete r.errors; r.reason = "taken over"; }
}`)
	p.go_("/dead")
	p.sees("table.simple .error", "taken over")
	p.wait(`!new URL(document.querySelector("table.simple a.number").href).searchParams.has("error")`)
	p.click("table.simple button", "Redrive")
	p.sees("dialog", "1 dead run.")
	p.sees("dialog .names", id) // its id, and not what a filter finds
	p.confirm(nil, "Redrive", "1 of 1 changed")
}

// TestANamedJobHasNoPrefix beside it, which the API would refuse.
func TestANamedJobHasNoPrefix(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("b/one", object{"schedule": "@every 24h", "due_time": "0s", "target": n.toSink("/ok")})
	n.runID("b/one")
	p := b.open(t, n.url, 1200, 900)
	p.visit("/runs?job=a")
	p.sees(".changes", "Only of the job")
	p.fill("Job begins with", "b/")
	p.sees("table.list", "b/one")
	p.wait(`!document.querySelector("main .trouble") && !new URLSearchParams(location.search).has("job")`)
}
