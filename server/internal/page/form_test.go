//go:build unix

package page_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/server"
)

// written is a job as the API writes it, without its status.
func (n *node) written(name string) string {
	n.t.Helper()
	text := n.send(http.MethodGet, name, "")
	spec, _, found := strings.Cut(text, `,"status":{`)
	if !found {
		n.t.Fatalf("%s has no status: %s", name, text)
	}
	return spec
}

// putWritten puts a job of which the body is a text.
func (n *node) putWritten(name, body string) { n.t.Helper(); n.send(http.MethodPut, name, body) }

// send calls the API about a job with a text, and returns that of the answer.
func (n *node) send(method, name, body string) string {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.url+jobs+name, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	a, err := (&http.Client{Timeout: time.Minute}).Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	text, err := io.ReadAll(a.Body)
	if err := a.Body.Close(); err != nil {
		n.t.Error(err)
	}
	if err != nil || a.StatusCode > 299 {
		n.t.Fatalf("%s %s: %d %v %s", method, name, a.StatusCode, err, text)
	}
	return string(text)
}

// store sends a form.
func (p *tab) store(button string) {
	p.t.Helper()
	p.click("form.job .buttons button", button)
}

// wrong waits until a field says what is wrong with it.
func (p *tab) wrong(path, says string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`document.getElementById(%s)?.getAttribute("aria-invalid") === "true" &&
  document.getElementById(%s).textContent.includes(%s)`, js("f-"+path), js("f-"+path+"-wrong"), js(says)))
}

// focused waits until a field has the keyboard.
func (p *tab) focused(path string) {
	p.t.Helper()
	p.wait(`document.activeElement.id === ` + js("f-"+path) + ` && document.activeElement.offsetHeight > 0`)
}

// everything is a job with all that a form shows, and with some that it cannot show: a number beyond those of
// JavaScript, a metadata value of two lines.
const everything = `{"schedule": "0 30 2 * * *", "time_zone": "Europe/Berlin", "dst": "literal", "repeats": "9007199254740993",
"ttl": "2099-01-01T00:00:00Z", "jitter": "1m", "data": {"id": 12345678901234567890123, "a":  [1, 2.50], "t": "\u2028\"}{"},
"metadata": {"two": "one\nline", "k": "v"}, "labels": {"team": "bi"}, "concurrency_key": "smtp", "priority": "high",
"target": {"http": {"url": "https://example.com/a", "method": "PUT", "headers": {"X-A": "b", "X-C": "d: e"}}},
"failure_policy": {"exponential": {"initial": "2s", "factor": 1.5, "max": "1h", "max_retries": 7}, "on_exhausted": "dead", "pause_after": 3},
"timeout": "90s", "overlap": "skip", "misfire": "all", "catch_up_limit": 5, "catch_up_window": "2h", "note": "one\ntwo",
"history": {"runs": 5, "keep": "1h", "no_results": true}}`

// TestMakeAJob: words and next times while the schedule is typed, what is wrong at its field before it is sent, and then a job
// with what was typed, whose data are the bytes that were typed.
func TestMakeAJob(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/jobs")
	p.click("main a.button", "New job")
	p.sees("main h1", "New job")
	p.focused("name")
	p.enter("name", "reports/nightly")
	p.enter("schedule", "61 2 * * *")
	p.wrong("schedule", "61 is out of range")
	p.enter("schedule", "30 2 * * *")
	p.enter("time_zone", "Berlin")
	p.wrong("time_zone", "Berlin")
	p.enter("time_zone", "Europe/Berlin")
	p.sees(".preview .words", "Every day at 02:30")
	p.wait(`document.querySelectorAll(".preview .times tbody tr:not(.change)").length === 5`)
	p.enter("data.as", "json")
	p.enter("data", `{"id": 12345678901234567890123,}`)
	p.wrong("data", "It is no JSON")
	p.enter("failure_policy", "constant")
	p.enter("failure_policy.constant.interval", "30s")
	p.enter("failure_policy.constant.max_retries", "2")
	p.enter("labels", "team")
	p.enter("target.worker.queue", "render")
	before := p.asked()
	p.store("Make the job")
	p.focused("labels")
	p.wrong("labels", "key=value")
	p.enter("labels", "team=bi\nroom=two=2")
	p.store("Make the job")
	p.focused("data")
	if asked := p.asked(); asked != before {
		t.Errorf("%d calls with what was known to be wrong", asked-before)
	}
	p.enter("data", `{"id": 12345678901234567890123, "a":  [1.0]}`)
	p.store("Make the job")
	p.sees("main", "nobody serves queue") // a warning of the API, once it is stored
	p.click("main a.button", "To the job")
	p.sees("main h1", "reports/nightly")
	want := `{"namespace":"default","name":"reports/nightly","schedule":"30 2 * * *","time_zone":"Europe/Berlin","dst":"safe",` +
		`"data":{"id": 12345678901234567890123, "a":  [1.0]},"content_type":"application/json",` +
		`"labels":{"room":"two=2","team":"bi"},"target":{"worker":{"queue":"render"}},` +
		`"failure_policy":{"constant":{"interval":"30s","max_retries":2}},"overlap":"serial","misfire":"latest","priority":"normal"`
	if got := n.written("reports/nightly"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestRefusedAtTheField: what the API refuses is shown where it is, which gets the keyboard, and all that was typed stays.
func TestRefusedAtTheField(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("there", object{"schedule": "@every 1h", "target": toQueue("q")})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/new")
	p.enter("name", "there")
	p.enter("schedule", "@every 2h")
	p.store("Make the job")
	p.wrong("target.worker.queue", "missing")
	p.focused("target.worker.queue")
	p.enter("target", "http")
	p.enter("target.http.url", "ftp://example.com")
	p.store("Make the job")
	p.wrong("target.http.url", "http://")
	p.focused("target.http.url")
	p.enter("target.http.url", "https://example.com")
	p.must(p.eval(`document.querySelector("form.job details").open = false`, nil))
	p.enter("timeout", "soon")
	p.store("Make the job")
	p.wrong("timeout", "soon")
	p.focused("timeout") // what it stands in was folded
	p.enter("timeout", "90s")
	p.enter("failure_policy", "exponential")
	p.enter("failure_policy.exponential.max_retries", "many")
	p.store("Make the job")
	p.wrong("failure_policy.exponential.max_retries", "")
	p.enter("failure_policy.exponential.max_retries", "")
	p.store("Make the job")
	p.wrong("name", "there")
	p.focused("name")
	p.wait(`document.getElementById("f-schedule").value === "@every 2h"`)
	p.enter("name", "")
	p.store("Make the job")
	p.wait(`location.pathname.startsWith("/jobs/default/")`) // under a name that was made up
	if got := n.written("there"); !strings.Contains(got, `"schedule":"@every 1h"`) {
		t.Errorf("the job that was there: %s", got)
	}
}

// TestEditKeepsTheRest: only what was changed is sent, so all the rest stays, byte by byte, whether the form can show it or not.
func TestEditKeepsTheRest(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.putWritten("all", everything)
	n.putWritten("bytes", `{"schedule": "@every 1h", "target": {"worker": {"queue": "q"}}, "data_base64": "/wAB", "content_type": "image/x"}`)
	n.putWritten("text", `{"schedule": "@every 1h", "target": {"worker": {"queue": "q"}}, "data_base64": "Z3LDvMOfZQo=", "content_type": "text/plain"}`)
	p := b.open(t, n.url, 1200, 900)
	edit := func(job, path, value string, fix func(spec string) string) {
		t.Helper()
		want := fix(n.written(job))
		p.visit("/edit?job=" + job)
		p.sees(".summary", "Nothing is changed yet.")
		p.enter(path, value)
		p.sees(".summary", "What changes")
		p.store("Store the changes")
		p.wait(`location.pathname === "/jobs/default/` + job + `" || document.querySelector("main h1").textContent.includes("It is stored")`)
		if got := n.written(job); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", path, got, want)
		}
	}
	change := func(old, is string) func(string) string {
		return func(spec string) string {
			if strings.Count(spec, old) != 1 {
				t.Fatalf("%q is not there once: %s", old, spec)
			}
			return strings.Replace(spec, old, is, 1)
		}
	}
	p.visit("/edit?job=all")
	p.sees(".small-print", "kept as it is: metadata.")
	edit("all", "note", "three", change(`"note":"one\ntwo"`, `"note":"three"`))
	edit("all", "target.http.url", "https://example.com/b", change("example.com/a", "example.com/b"))
	edit("all", "target.http.method", "", change(`"method":"PUT",`, ""))
	edit("all", "failure_policy.exponential.max", "", change(`"max":"1h0m0s",`, ""))
	edit("all", "failure_policy.on_exhausted", "", change(`"on_exhausted":"dead",`, ""))
	edit("all", "history.runs", "6", change(`"history":{"runs":5`, `"history":{"runs":6`))
	edit("all", "labels", "", change(`"labels":{"team":"bi"},`, ""))
	edit("all", "failure_policy", "drop", change(`{"exponential":{"initial":"2s","factor":1.5,"max_retries":7},`, `{"drop":{},`))
	edit("all", "failure_policy", "", change(`"drop":{},`, ""))
	edit("all", "data", "[1e400]", func(spec string) string {
		return regexp.MustCompile(`"data":\{.*?\},"content_type"`).ReplaceAllString(spec, `"data":[1e400],"content_type"`)
	})
	edit("all", "data.as", "none", change(`"data":[1e400],"content_type":"application/json",`, ""))
	edit("bytes", "paused", "true", change(`"priority":"normal"`, `"priority":"normal","paused":true`))
	edit("text", "data", "größer\n", change("Z3LDvMOfZQo=", "Z3LDtsOfZXIK"))
}

// TestALostUpdateIsRefused: what somebody else has stored meanwhile is not overwritten. It is told, and the reader may go on over it.
func TestALostUpdateIsRefused(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("shared", object{"schedule": "0 9 * * *", "target": n.toSink("/ok"), "note": "old", "timeout": "10s"})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/edit?job=shared")
	p.enter("note", "mine")
	p.enter("timeout", "20s")
	n.must("PATCH", jobs+"shared", object{"schedule": "0 10 * * *", "timeout": "30s"})
	p.store("Store the changes")
	p.sees("form .trouble", "Somebody has changed the job since this form was filled: schedule, timeout. Nothing was stored.")
	p.sees("form .trouble", "You have changed timeout, too")
	if got := n.written("shared"); !strings.Contains(got, `"note":"old"`) || !strings.Contains(got, `"timeout":"30s"`) {
		t.Errorf("before that was confirmed: %s", got)
	}
	p.wait(`document.querySelector("form.job > .buttons .primary").disabled`)
	p.click("form .trouble button", "Go on over what is there now")
	p.wait(`document.getElementById("f-schedule").value === "0 10 * * *"`)
	p.sees(".summary li", "Timeout: 30s")
	p.store("Store the changes")
	p.sees("main .acts", "Pause")
	if got := n.written("shared"); !strings.Contains(got, `"note":"mine"`) || !strings.Contains(got, `"timeout":"20s"`) ||
		!strings.Contains(got, `"schedule":"0 10 * * *"`) {
		t.Errorf("afterwards: %s", got)
	}
}

// TestCopyAJob: all of it, byte by byte, under another name; what was typed is there again when the reader comes back.
func TestCopyAJob(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.putWritten("all", everything)
	p := b.open(t, n.url, 1200, 900)
	p.visit("/jobs/default/all")
	p.click(".acts a", "Make a copy")
	p.enter("name", "another")
	p.enter("failure_policy", "constant")
	p.enter("failure_policy.constant.interval", "5s")
	p.must(p.eval(`document.querySelector('nav a[href="/queues"]').click()`, nil))
	p.sees("main h1", "Queues")
	p.must(p.eval(`history.back()`, nil))
	p.sees("main .changes", "What you had typed in is here again")
	p.store("Make the job")
	p.sees("main h1", "another")
	want := regexp.MustCompile(`\{"exponential":\{.*?\},`).ReplaceAllString(n.written("all"), `{"constant":{"interval":"5s"},`)
	if got := strings.Replace(n.written("another"), `"name":"another"`, `"name":"all"`, 1); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestThePlaygroundMakesAJob of what it shows.
func TestThePlaygroundMakesAJob(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.must("PUT", "/v1/namespaces/default/calendars/holidays", object{"dates": []string{"12-25"}})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/schedule?schedule=0+9+*+*+*&zone=Europe%2FBerlin&except=holidays")
	p.click("main a", "Make a job of this")
	p.sees(".preview .words", "Every day at 09:00")
	p.enter("name", "played")
	p.enter("target", "http")
	p.enter("target.http.url", n.sink+"/ok")
	p.store("Make the job")
	p.sees("main h1", "played")
	if got := n.written("played"); !strings.Contains(got, `"schedule":"0 9 * * *","time_zone":"Europe/Berlin","dst":"safe","except":["holidays"]`) {
		t.Error(got)
	}
}

// TestAOneShotInTheForm: fields that need a schedule are not sent with it.
func TestAOneShotInTheForm(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("often", object{"schedule": "@every 1h", "overlap": "skip", "dst": "literal", "target": n.toSink("/ok")})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/edit?job=often")
	p.enter("when", "once")
	p.store("Store the changes")
	p.sees("form .trouble", "give due_time") // the API's own refusal, of a field that is not shown
	p.enter("due_time", "3h")
	p.sees(".preview", "It runs once, in 3 h")
	p.sees(".summary", "Its times count from now on")
	p.store("Store the changes")
	p.sees("main .words", "Once")
	if got := n.written("often"); !strings.Contains(got, `"dst":"safe"`) || strings.Contains(got, `"schedule":`) || !strings.Contains(got, `"overlap":"serial"`) {
		t.Error(got)
	}
	p.click(".acts a", "Make a copy")
	p.enter("name", "twin")
	p.enter("due_time", "4h")
	p.store("Make the job")
	p.sees("main h1", "twin")
	if got, want := strings.ReplaceAll(n.written("twin"), "twin", "often"), strings.ReplaceAll(n.written("often"), "3h", "4h"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestWhoMayMakeJobs: others are offered none of it.
func TestWhoMayMakeJobs(t *testing.T) {
	b := launch(t)
	n := locked(t)
	n.put("a/job", object{"schedule": "@every 1h", "target": toQueue("q")})
	secrets := map[string]string{}
	for _, role := range []string{"viewer", "producer"} {
		secrets[role] = fmt.Sprint(n.must("POST", "/v1/keys", object{"grants": []object{{"role": role, "namespaces": []string{"*"}}}})["secret"])
	}
	p := b.open(t, n.url, 1200, 900)
	t.Cleanup(func() { p.do("Network.clearBrowserCookies", object{}, nil) })
	p.visit("/jobs")
	p.login(secrets["viewer"])
	p.sees("table.list", "a/job")
	p.sees(".top .reader", "Log out")
	p.wait(`!document.querySelector("main a.button")`)
	p.go_("/jobs/default/a/job")
	p.sees("main", "Every hour")
	p.wait(`!document.querySelector("main a.button")`)
	for _, path := range []string{"/new", "/edit?job=a%2Fjob", "/new?from=a%2Fjob"} {
		p.go_(path)
		p.sees("main", "Your roles do not let you put jobs")
		p.wait(`!document.querySelector("main form")`)
	}
	p.go_("/schedule?schedule=%40daily")
	p.sees(".words", "Every day")
	p.wait(`!document.querySelector('main a[href^="/new"]')`)

	p.click(".top button", "Log out")
	p.login(secrets["producer"])
	p.go_("/edit?job=a%2Fjob")
	p.enter("note", "by a producer")
	p.store("Store the changes")
	p.click("main a.button", "To the job")
	p.sees("main .facts", "by a producer")
}
