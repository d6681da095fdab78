//go:build unix

package page_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/server"
)

// TestAScheduleIsNotForgotten: a job by a schedule that has none would run at once. It is not sent, and neither is one without
// a namespace.
func TestAScheduleIsNotForgotten(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/new")
	p.enter("name", "blank")
	p.enter("target", "http")
	p.enter("target.http.url", n.sink+"/ok")
	p.wait(`!document.getElementById("f-schedule-wrong")`) // nobody has asked for it yet
	before := p.asked()
	p.store("Make the job")
	p.wrong("schedule", "A schedule is missing; choose once to run it once")
	p.focused("schedule")
	p.enter("schedule", "@every 1h")
	p.enter("namespace", " ")
	p.wrong("namespace", "A namespace is missing")
	p.store("Make the job")
	p.focused("namespace")
	if asked := p.asked(); asked > before+1 { // the preview
		t.Errorf("%d calls with what was known to be wrong", asked-before)
	}
	p.enter("namespace", "default")
	p.enter("schedule", "")
	p.enter("when", "once")
	p.enter("due_time", "3h")
	p.store("Make the job")
	p.sees("main .words", "Once")
}

// TestAnEditOfAOneShotStoresNoSchedule that was typed in and is hidden again.
func TestAnEditOfAOneShotStoresNoSchedule(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("single", object{"due_time": "3h", "target": n.toSink("/ok")})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/edit?job=single")
	p.enter("when", "schedule")
	p.wrong("schedule", "A schedule is missing")
	p.enter("schedule", "@every 1h")
	p.sees(".summary", "Its times count from now on")
	p.enter("when", "once")
	p.sees(".summary", "Nothing is changed yet.")
	p.wait(`document.querySelector("form.job > .buttons .primary").disabled`)
	p.enter("note", "still once")
	p.store("Store the changes")
	p.sees("main .words", "Once")
	if got := n.written("single"); strings.Contains(got, `"schedule"`) || !strings.Contains(got, `"note":"still once"`) {
		t.Error(got)
	}
}

// TestTheEffectIsThatOfTheJobThatIsMade: the run of a one-shot is another one if its time changes; that of a job that gets a
// schedule goes on.
func TestTheEffectIsThatOfTheJobThatIsMade(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("often", object{"schedule": "@every 24h", "due_time": "0s", "target": n.toSink("/wait"), "timeout": "10m"})
	n.put("single", object{"due_time": "0s", "target": n.toSink("/wait"), "timeout": "10m"})
	for _, name := range []string{"often", "single"} {
		n.until("a run of "+name, func() bool {
			return n.must("GET", jobs+name, nil)["status"].(object)["phase"] == "running"
		})
	}
	p := b.open(t, n.url, 1200, 900)
	const cancelled, next = "Its unfinished run is cancelled", "The attempt in force is told to stop"
	for _, c := range []struct{ job, when, path, value, want, not string }{
		{"often", "once", "due_time", "3h", cancelled, next},
		{"often", "schedule", "schedule", "@every 2h", next, cancelled},
		{"single", "schedule", "schedule", "@every 2h", next, cancelled},
		{"single", "once", "due_time", "3h", cancelled, next},
	} {
		p.visit("/edit?job=" + c.job)
		p.enter("when", c.when)
		p.enter(c.path, c.value)
		p.sees(".summary", c.want)
		p.wait(`!document.querySelector(".summary").textContent.includes(` + js(c.not) + `)`)
	}
}

// loses has the next call of a method done by the node, and its answer lost.
func (p *tab) loses(method string) {
	p.t.Helper()
	p.must(p.eval(`{
  const real = window.fetch;
  window.fetch = async (url, o) => {
    if (o?.method !== `+js(method)+`) return real(url, o);
    window.fetch = real;
    await real(url, o);
    throw new TypeError("lost");
  };
}`, nil))
}

// TestALostAnswer makes no second job, and accuses nobody.
func TestALostAnswer(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/new")
	p.enter("schedule", "@every 1h")
	p.enter("target", "http")
	p.enter("target.http.url", n.sink+"/ok")
	p.loses("POST")
	p.store("Make the job")
	p.sees("form .trouble", "may or may not have been made")
	p.wait(`document.getElementById("f-name").value.length === 26`)
	p.store("Make the job")
	p.wrong("name", "already")
	all, _ := n.must("GET", strings.TrimSuffix(jobs, "/"), nil)["jobs"].([]any)
	if len(all) != 1 {
		t.Errorf("%d jobs", len(all))
	}

	n.put("edited", object{"schedule": "@every 1h", "target": n.toSink("/ok")})
	p.visit("/edit?job=edited")
	p.enter("timeout", "90s")
	p.enter("labels", "b=2\na=1")
	p.loses("PATCH")
	p.store("Store the changes")
	p.sees("main h1", "Your changes are there: edited")
	if got := n.written("edited"); !strings.Contains(got, `"timeout":"1m30s"`) {
		t.Error(got)
	}
}
