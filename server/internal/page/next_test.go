//go:build unix

package page_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/server"
)

// TestTimesThatCome: a job shows the times that it fires at: no more than its runs and its life allow, and those of days
// and months counted from its first one.
func TestTimesThatCome(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	last := time.Date(time.Now().UTC().Year(), 1, 31, 9, 0, 0, 0, time.UTC).Format(time.RFC3339)
	ends := time.Now().Add(50 * time.Hour).UTC().Truncate(time.Second)
	for name, job := range map[string]object{
		"four": {"schedule": "R4/PT15M"}, "two": {"schedule": "0 0 * * *", "repeats": 2},
		"begun":   {"schedule": "R4/PT6H", "due_time": "0s", "target": n.toSink("/ok")},
		"life":    {"schedule": "@every 1h", "ttl": "3h"},
		"ends":    {"schedule": "0 */6 * * *", "ttl": ends.Format(time.RFC3339)},
		"changed": {"schedule": "@every 1h", "ttl": "3h"},
		"months":  {"schedule": "R/P1M", "due_time": last}, "several": {"schedule": "@every 7h; 0 */8 * * *"},
		"later": {"schedule": "@every 5h; 0 0 * * *", "due_time": "90m"},
	} {
		if job["target"] == nil {
			job["target"] = toQueue("q")
		}
		n.put(name, job)
	}
	n.runID("begun")
	for i := range 100 { // until that is another millisecond than when it was put: a browser's times have no more
		n.must("PATCH", jobs+"changed", object{"note": fmt.Sprint("put again: ", i)})
		if s := n.must("GET", jobs+"changed", nil)["status"].(object); parsed(t, s["update_time"]).Sub(parsed(t, s["create_time"])) > time.Millisecond {
			break
		}
	}
	for n.next("months").Day() == 31 { // until a month is shorter, after which days of the 31st come again
		n.must("POST", jobs+"months:skip", nil)
	}
	created := n.must("GET", jobs+"several", nil)["status"].(object)["create_time"]
	deferred := n.preview(object{"due_time": "90m", "from": n.must("GET", jobs+"later", nil)["status"].(object)["create_time"]})[0]
	every := func(name string, d time.Duration, k int) (all []time.Time) {
		for i := range k {
			all = append(all, n.next(name).Add(time.Duration(i)*d))
		}
		return all
	}
	p := b.open(t, n.url, 1200, 900)
	for name, want := range map[string]struct {
		times []time.Time
		end   string
	}{
		"four": {every("four", 15*time.Minute, 4), "The job repeats 4 times at most."}, "two": {every("two", 24*time.Hour, 2), "The job repeats 2 times at most."},
		"begun":   {every("begun", 6*time.Hour, 3), "The job repeats 4 times at most."},
		"life":    {every("life", time.Hour, 3), "The job's life ends at …."},
		"ends":    {every("ends", 6*time.Hour, 1+int(ends.Sub(n.next("ends"))/(6*time.Hour))), "The job's life ends at …."},
		"changed": {every("changed", time.Hour, 3), "The job's life ends at …."},
		"months":  {n.preview(object{"schedule": "R/P1M", "due_time": last, "from": before(n.next("months"))}), ""},
		"several": {n.preview(object{"schedule": "@every 7h; 0 */8 * * *", "due_time": created, "from": before(n.next("several"))}), ""},
		"later":   {n.preview(object{"schedule": "@every 5h; 0 0 * * *", "due_time": deferred.Format(time.RFC3339Nano), "from": before(n.next("later"))}), ""},
	} {
		p.visit("/jobs/default/" + name)
		var text string
		for _, at := range want.times {
			text += at.UTC().Format("Mon 2006-01-02 15:04:05 UTC") + "\n"
		}
		p.wait(`[...document.querySelectorAll("table.times tbody tr")].map((r) => r.cells[0].textContent + "\n").join("") === ` + js(text))
		p.wait(`(document.querySelector('section[aria-label="Schedule"] .small-print')?.textContent ?? "")
  .replace(/ends at .*Z/, "ends at …") === ` + js(want.end))
	}
}

// TestHintsOfSchedules: what may be meant otherwise is said in the playground and in the form, and nothing of others.
func TestHintsOfSchedules(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	p := b.open(t, n.url, 1200, 900)
	for _, room := range []string{"/schedule", "/new"} {
		p.visit(room + "?" + url.Values{"schedule": {"*/7 * 1 * MON"}}.Encode())
		p.wait(`document.querySelectorAll(".schedule-hint").length === 2`)
		p.sees(".schedule-hint", "Day of month and day of week are both restricted")
		p.visit(room + "?" + url.Values{"schedule": {"*/5 * * * *"}}.Encode())
		p.wait(`document.querySelectorAll("table.times tbody tr").length > 0 && document.querySelectorAll(".schedule-hint").length === 0`)
	}
}

// TestAListSaysWhyTriggeredRunsWait, of a job whose next time is far away.
func TestAListSaysWhyTriggeredRunsWait(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("yearly", object{"schedule": "@yearly", "target": toQueue("nobody")})
	n.must("POST", jobs+"yearly:trigger", object{})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/jobs")
	p.sees("table.list", `1 run waits besides: No worker serves queue "nobody"`)
}

// TestSelectedJobsAreThoseOfTheList: another filter selects none.
func TestSelectedJobsAreThoseOfTheList(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("one", object{"schedule": "@yearly", "target": toQueue("q")})
	n.put("two", object{"schedule": "@yearly", "target": toQueue("q")})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/jobs")
	p.click("table.list input", "one")
	p.sees(".acts button", "Pause 1 selected")
	p.fill("Name begins with", "tw")
	p.wait(`document.querySelectorAll("table.list tbody tr").length === 1`)
	p.sees(".acts button", "Pause all")
}

// TestTheSpecHasEveryDigit: numbers are shown as the API writes them.
func TestTheSpecHasEveryDigit(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.put("large", object{"schedule": "@yearly", "target": toQueue("q"),
		"data": json.RawMessage(`{"n": 9007199254740993, "f": 1.10, "s": "a\"b{[,:]}", "none": [], "all": [1, {}]}`)})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/jobs/default/large")
	p.sees("pre", "9007199254740993")
	p.wait(`JSON.parse(document.querySelector('pre[aria-label="The spec as JSON"]').textContent).data.s === 'a"b{[,:]}'`)
}

// next is when a job fires next.
func (n *node) next(job string) time.Time {
	n.t.Helper()
	return parsed(n.t, n.must("GET", jobs+job, nil)["status"].(object)["next_run_time"])
}

func parsed(t *testing.T, text any) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, fmt.Sprint(text))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// preview is when a schedule fires, as the API says it.
func (n *node) preview(body object) (all []time.Time) {
	n.t.Helper()
	body["count"] = 10
	times, _ := n.must("POST", "/v1/schedules:preview", body)["times"].([]any)
	for _, text := range times {
		at, err := time.Parse(time.RFC3339, fmt.Sprint(text))
		if err != nil {
			n.t.Fatal(err)
		}
		all = append(all, at)
	}
	return all
}

func before(t time.Time) string { return t.Add(-1).Format(time.RFC3339Nano) }
