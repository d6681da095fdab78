//go:build unix

package page_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/link"
	_ "github.com/carillonhq/carillon/server/store/pebble"
)

// TestFirstLoad: everything that the overview needs, but for the API's answers, is small.
func TestFirstLoad(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	p := b.open(t, n.url, 1200, 900)
	p.visit("/")
	p.sees(".health", "Everything that was due has begun.")
	var sizes []struct {
		Name         string
		TransferSize int
	}
	p.must(p.eval(`performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
  .filter((e) => !new URL(e.name).pathname.startsWith("/v1/")).map((e) => ({name: e.name, transferSize: e.transferSize}))`, &sizes))
	sum := 0
	for _, s := range sizes {
		sum += s.TransferSize
	}
	var spent float64
	p.must(p.eval(`performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd`, &spent))
	t.Logf("%d bytes in %d files; the document is there after %.0f ms", sum, len(sizes), spent)
	if sum == 0 || sum > 250<<10 {
		t.Errorf("%d bytes over the network: %v", sum, sizes)
	}
}

// TestTenThousandRows: only those in sight are in the document, wherever the reader is in the list.
func TestTenThousandRows(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	for i := range 10 {
		var all []object
		for k := range 1000 {
			all = append(all, object{"name": fmt.Sprintf("many/%05d", i*1000+k), "schedule": "@every 24h", "target": toQueue("q")})
		}
		n.must("POST", "/v1/namespaces/default/jobs:batch", object{"jobs": all})
	}
	p := b.open(t, n.url, 1200, 900)
	p.visit("/jobs")
	p.sees("table.list", "many/00000")
	before := p.spent()
	var frames struct{ Rows, Most, Frames int }
	p.must(p.eval(`new Promise((done) => {
  let most = 0, frames = 0, still = 0;
  const step = (now) => {
    frames++;
    most = Math.max(most, document.querySelectorAll("table.list tbody tr").length);
    scrollBy(0, 3000);
    const end = document.querySelector("table.list").textContent.includes("many/09999");
    still = end ? still + 1 : 0;
    if (still > 5 || now > 60000) done({rows: document.querySelectorAll("table.list tbody tr").length, most, frames});
    else requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})`, &frames))
	p.sees(".filters", "10\u202f000 jobs")
	t.Logf("at most %d rows in the document; %d frames of 90 new rows took %.1f ms of a processor each", frames.Most,
		frames.Frames, (p.spent()-before)*1000/float64(frames.Frames))
	if frames.Most > 120 {
		t.Errorf("%d rows in the document at once", frames.Most)
	}
}

// spent is the processor time in seconds that the page's thread has had.
func (p *tab) spent() float64 {
	p.t.Helper()
	p.do("Performance.enable", object{"timeDomain": "threadTicks"}, nil)
	var m struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	p.do("Performance.getMetrics", object{}, &m)
	for _, one := range m.Metrics {
		if one.Name == "TaskDuration" {
			return one.Value
		}
	}
	p.t.Fatal("the browser does not say what it has spent")
	return 0
}

// TestTheConnectionIsLost: the page says so, and goes on by itself with what it has missed.
func TestTheConnectionIsLost(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.furnish()
	between, err := link.Listen(strings.TrimPrefix(n.url, "http://"), link.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := between.Close(); err != nil {
			t.Error(err)
		}
	}()
	p := b.open(t, "http://"+between.Address(), 1200, 900)
	p.visit("/jobs?prefix=late%2F")
	p.sees(".live", "live")
	p.sees("main", "No job is like that.")
	between.Cut(link.Broken)
	p.sees(".lost", "what is shown may be out of date")
	n.put("late/comer", object{"schedule": "@every 24h", "target": toQueue("mail")})
	p.visitNothing()
	between.Heal()
	p.sees("table.list", "late/comer")
	p.wait(`!document.querySelector(".lost")`)

	p.go_("/jobs/default/late/comer")
	p.sees("main", "Every day")
	p.click(".acts button", "Pause")
	between.Cut(link.Broken)
	p.click("dialog .buttons button", "Pause")
	p.sees("dialog .trouble", "the change may or may not have been made")
	between.Heal()
}

// visitNothing checks that the page is still there while nothing answers.
func (p *tab) visitNothing() {
	p.t.Helper()
	if !strings.Contains(p.text(), "Not connected for") {
		p.t.Errorf("the page does not say that it is not connected: %s", p.text())
	}
}

// go_ follows a link within the page.
func (p *tab) go_(path string) {
	p.t.Helper()
	p.must(p.eval(`(() => { const a = document.createElement("a"); a.href = `+js(path)+`; document.body.append(a); a.click(); a.remove(); })()`, nil))
}

// TestLoggedOut: where the node has no sessions the page says so; where there are some it asks for a key, keeps it
// nowhere, and shows what the reader may see.
func TestLoggedOut(t *testing.T) {
	b := launch(t)
	store := "pebble:" + t.TempDir()
	made, err := server.CreateKey(t.Context(), store, carillon.NewKey{Grants: []carillon.AccessGrant{{Role: carillon.RoleAdmin, Namespaces: []string{"*"}}}})
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, server.Config{Store: store, Extensions: server.Extensions{Auth: server.AuthKeys}})
	n.key = made.Secret
	n.put("a/job", object{"schedule": "@every 1h", "target": toQueue("q")})

	p := b.open(t, n.url, 1200, 900)
	p.visit("/jobs")
	p.sees("main h1", "Log in")

	front := httptest.NewServer(sessions(t, n.url, made.Secret))
	t.Cleanup(front.Close) // after the page has gone, whose stream of events has no end
	q := b.open(t, front.URL, 1200, 900)
	q.visit("/jobs")
	q.fill("API key", "ck_wrong")
	q.click("main button", "Log in")
	q.sees("main .trouble", "no such key")
	q.fill("API key", made.Secret)
	q.click("main button", "Log in")
	q.sees("table.list", "a/job")
	q.sees(".top", "Log out")
	q.wait(`document.querySelector(".live").textContent.includes("live")`)
	if strings.Contains(q.text(), "Pause all") {
		t.Error("a viewer is shown what viewers may not do")
	}
	var kept string
	q.must(q.eval(`JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage), document.cookie, document.documentElement.outerHTML])`, &kept))
	if strings.Contains(kept, made.Secret) || strings.Contains(kept, "ck_") && !strings.Contains(kept, "ck_…") {
		t.Error("the page keeps the key")
	}
	q.click(".top button", "Log out")
	q.sees("main h1", "Log in")
}

// sessions is a proxy before a node that has sessions for pages, of viewers: it shows the node the key.
func sessions(t *testing.T, node, key string) http.Handler {
	target, err := url.Parse(node)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		if c, err := r.In.Cookie("session"); err == nil && c.Value == "one" {
			r.Out.Header.Set("Authorization", "Bearer "+key)
		}
	}, FlushInterval: -1}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/session" {
			proxy.ServeHTTP(w, r)
			return
		}
		cookie := &http.Cookie{Name: "session", Value: "one", HttpOnly: true, SameSite: http.SameSiteStrictMode, Path: "/"}
		w.Header().Set("Content-Type", "application/json")
		switch c, err := r.Cookie("session"); {
		case r.Method == http.MethodPost:
			var body struct{ Key string }
			if json.NewDecoder(r.Body).Decode(&body) != nil || body.Key != key {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = io.WriteString(w, `{"code": "unauthenticated", "detail": "there is no such key"}`)
				return
			}
			http.SetCookie(w, cookie)
			_, _ = io.WriteString(w, `{}`)
		case r.Method == http.MethodDelete:
			cookie.MaxAge = -1
			http.SetCookie(w, cookie)
			_, _ = io.WriteString(w, `{}`)
		case err != nil || c.Value != "one":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"code": "unauthenticated", "detail": "nobody is logged in"}`)
		default:
			_, _ = io.WriteString(w, `{"principal": "key abc", "authentication": "key", "grants": [{"role": "viewer", "namespaces": ["*"]}]}`)
		}
	})
}

// TestKeyboard: two keys go to a room, others move, open and search.
func TestKeyboard(t *testing.T) {
	b := launch(t)
	n := start(t, server.Config{})
	n.furnish()
	p := b.open(t, n.url, 1200, 900)
	p.visit("/")
	p.wait(`document.querySelector(".live.live")`) // so it listens to keys as well
	p.press("g", "j")
	p.wait(`location.pathname === "/jobs" && document.querySelector("table.list")`)
	p.press("j", "j", "k", "j")
	p.wait(`document.querySelector("tr.here").textContent.includes("etl/load")`)
	p.press("x")
	p.wait(`document.querySelector("tr.selected").textContent.includes("etl/load")`)
	p.press("Enter")
	p.wait(`location.pathname === "/jobs/default/etl/load"`)
	p.press("?")
	p.sees("dialog", "these keys")
	p.click("dialog button", "Close")
	p.wait(`!document.querySelector("dialog[open]")`)
	p.press("/")
	p.wait(`document.activeElement.id === "search"`)
	for _, c := range "status:dead imports/" {
		p.press(string(c))
	}
	p.press("Enter")
	p.wait(`location.pathname === "/runs" && new URLSearchParams(location.search).get("status") === "dead"`)
	p.sees("table.list", "imports/file")
}
