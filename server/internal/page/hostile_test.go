//go:build unix

package page_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/server"
)

// hostile are texts that would do something if they were more than text.
var hostile = []string{
	`<img src=x onerror=alert(1)>`, `<script>alert(1)</script>`, `"><svg onload=alert(1)>`, `'-alert(1)-'`, `{{alert(1)}}`,
	"\u202egnp.exe", `javascript&colon;alert(1)`, `100%25 %2f%00 & ? # +`, `\\"';--`,
}

// TestHostileTexts: in every field that somebody can fill, they are shown as they are.
func TestHostileTexts(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	for i, text := range hostile {
		written := strings.ReplaceAll(text, "\u202e", "\u05e9\u05dc\u05d5\u05dd") // names have no characters that are not seen
		name := strings.ReplaceAll("h/"+written, ":", "") + string(rune('a'+i))
		if strings.Contains(text, "/") {
			name += "/end"
		}
		n.must("PUT", "/v1/namespaces/default/jobs/"+pathOf(name), object{
			"due_time": "0s", "target": object{"http": object{"url": n.sink + "/fail?" + url.QueryEscape(text), "headers": object{"X-A": "b"}}},
			"labels": object{"team": written}, "metadata": object{"m": text}, "note": text, "data": object{text: text},
			"failure_policy": object{"constant": object{"interval": "1s", "max_retries": 0}, "on_exhausted": "dead"}, "concurrency_key": written})
		n.must("PUT", "/v1/namespaces/default/jobs/"+pathOf(name+"x"), object{"schedule": "@every 24h", "target": toQueue("q" + written),
			"depends_on": []string{name}, "paused": true, "note": text, "data": object{text: text}, "labels": object{"team": written}})
		if status, o := n.ask("PUT", "/v1/namespaces/default/calendars/c", object{"dates": []string{"12-25"}, "note": text}); status > 299 {
			t.Fatal(o)
		}
		n.must("POST", "/v1/namespaces/default/queues/worker/"+pathOf("q"+written)+":pause", object{"note": text})
	}
	n.must("PUT", "/v1/namespaces/default", object{"concurrency_limits": limits()})
	long := "long/" + strings.Repeat("x", 507)
	n.must("PUT", "/v1/namespaces/default/jobs/"+long, object{"schedule": "@every 24h", "target": toQueue("q"), "note": strings.Repeat("<b>wide</b>", 80)})

	p := b.open(t, n.url, 1200, 900)
	for _, path := range []string{"/", "/jobs", "/runs", "/dead", "/queues", "/workers", "/graph", "/calendars", "/settings", "/cluster",
		"/jobs?prefix=" + url.QueryEscape(hostile[0]), "/runs?status=" + url.QueryEscape(hostile[1]), "/runs?late=" + url.QueryEscape(hostile[0]),
		"/schedule?schedule=" + url.QueryEscape(hostile[0]) + "&zone=" + url.QueryEscape(hostile[1]), "/jobs/default/" + long,
		"/new?schedule=" + url.QueryEscape(hostile[0]) + "&zone=" + url.QueryEscape(hostile[1]), "/new?from=" + url.QueryEscape(hostile[2]),
		"/edit?job=" + url.QueryEscape("h/<img src=x onerror=alert(1)>ax"), "/edit?job=" + long,
		"/" + url.PathEscape(hostile[0]), "/jobs/" + url.PathEscape(hostile[0]) + "/" + url.PathEscape(hostile[1]), "/runs/default/" + url.PathEscape(hostile[2]),
		"/?ns=" + url.QueryEscape(hostile[0]), "/jobs/%25ff/x%25zz"} {
		p.visit(path)
		p.wait(`document.querySelector("main").textContent.length > 10 && !document.querySelector(".loading")`)
		p.check()
	}
	p.visit("/dead")
	p.sees("main", "h/<img src=x onerror=alert(1)>a")
	p.visit("/jobs")
	p.click("table.list a", "h/<script>alert(1)</script>b/endx")
	p.sees("main h1", "h/<script>alert(1)</script>b/endx")
	p.sees(".facts", "team=<script>alert(1)</script>")
	p.sees("pre", "<script>alert(1)</script>")
	p.visit("/dead")
	p.click("main a.id", "")
	p.sees("main h1", "Run")
	p.sees("main", "500 Internal Server Error")
	p.visit("/jobs")
	p.click("table.list a", "h/100%25 %2f%00 & ? # +hx")
	p.sees("main h1", "h/100%25 %2f%00 & ? # +hx")
	p.sees(".heading .outcome", "")
}

func limits() object {
	all := object{}
	for _, text := range hostile {
		all[strings.ReplaceAll(text, "\u202e", "")] = 1
	}
	return all
}

func pathOf(name string) string {
	levels := strings.Split(name, "/")
	for i, level := range levels {
		levels[i] = url.PathEscape(level)
	}
	return strings.Join(levels, "/")
}

// TestAnswersThatAreNone: whatever stands between the page and the node may answer anything.
func TestAnswersThatAreNone(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	for name, body := range map[string]string{"no JSON": "<html>nginx</html>", "another shape": `[1, 2]`} {
		p := b.open(t, n.url, 1200, 900)
		p.visit("/calendars")
		p.answers(body)
		p.must(p.eval(`document.querySelector('nav a[href="/queues"]').click()`, nil))
		p.sees("main h1", "Queues")
		p.wait(`document.querySelector("main .trouble, main .nothing")`)
		t.Log(name, p.text())
	}
}

// answers has every call of the API answered alike from now on.
func (p *tab) answers(body string) {
	p.t.Helper()
	text, err := json.Marshal(body)
	p.must(err)
	p.must(p.eval(`window.fetch = async () => new Response(`+string(text)+`, {status: `+js(http.StatusOK)+`})`, nil))
}
