//go:build unix

package page_test

import (
	"fmt"
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
	p.spent() // from here on the browser measures
	p.visit("/")
	p.sees(".health", "Everything that was due has begun.")
	done := p.work()
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
	t.Logf("%d bytes in %d files; the document is there after %.0f ms; until the overview is shown %v", sum, len(sizes), spent, done)
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
	before := p.work()
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
	t.Logf("at most %d rows in the document; %d frames of 90 new rows took %.1f ms of a processor each, %v in all", frames.Most,
		frames.Frames, p.work().since(before).task*1000/float64(frames.Frames), p.work().since(before))
	if frames.Most > 120 {
		t.Errorf("%d rows in the document at once", frames.Most)
	}
}

// work is what a page's thread has done, in seconds of a processor.
type work struct{ task, script, style, layout float64 }

func (w work) String() string {
	return fmt.Sprintf("%.0f ms: script %.0f ms, style %.0f ms, layout %.0f ms", 1000*w.task, 1000*w.script, 1000*w.style, 1000*w.layout)
}

func (w work) since(before work) work {
	return work{w.task - before.task, w.script - before.script, w.style - before.style, w.layout - before.layout}
}

func (p *tab) work() work {
	p.t.Helper()
	return work{p.spent(), p.metric("ScriptDuration"), p.metric("RecalcStyleDuration"), p.metric("LayoutDuration")}
}

// spent is the processor time in seconds that the page's thread has had.
func (p *tab) spent() float64 { p.t.Helper(); return p.metric("TaskDuration") }

// metric is one of what the browser measures of the page.
func (p *tab) metric(name string) float64 {
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
		if one.Name == name {
			return one.Value
		}
	}
	p.t.Fatalf("the browser does not say %s", name)
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
	p.sees("div.lost", "what is shown may be out of date")
	n.put("late/comer", object{"schedule": "@every 24h", "target": toQueue("mail")})
	p.visitNothing()
	between.Heal()
	p.sees("table.list", "late/comer")
	p.wait(`!document.querySelector("div.lost")`)

	p.go_("/jobs/default/late/comer")
	p.sees("main", "Every 24 h")
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

// TestASession: the node asks for a key, which the page keeps nowhere; it then says who the reader is and shows what
// that may do, until the reader logs out or the key is no longer valid.
func TestASession(t *testing.T) {
	b := launch(t)
	n := locked(t)
	n.put("a/job", object{"schedule": "@every 1h", "target": toQueue("q")})
	made := n.must("POST", "/v1/keys", object{"grants": []object{{"role": "viewer", "namespaces": []string{"*"}}}})
	id, secret := fmt.Sprint(made["key"].(object)["id"]), fmt.Sprint(made["secret"])

	p := b.open(t, n.url, 1200, 900)
	t.Cleanup(func() { p.do("Network.clearBrowserCookies", object{}, nil) })
	p.visit("/jobs")
	p.sees("main h1", "Log in")
	if text := p.text(); strings.Contains(text, "ended") || strings.Contains(text, "Log out") {
		t.Errorf("nobody has logged in yet: %s", text)
	}
	p.fill("API key", "ck_wrong")
	p.click("main button", "Log in")
	p.sees("main .trouble", "API key")
	p.login(secret)
	p.sees("table.list", "a/job")
	p.sees(".top .reader", "key "+id)
	p.sees(".top .reader", "Log out")
	p.wait(`document.querySelector(".live").textContent.includes("live")`)
	if strings.Contains(p.text(), "Pause all") {
		t.Error("a viewer is shown what viewers may not do")
	}
	var kept string
	p.must(p.eval(`JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage), document.cookie,
  document.documentElement.outerHTML])`, &kept))
	if strings.Contains(kept, secret) || strings.Contains(kept, "ck_") && !strings.Contains(kept, "ck_…") {
		t.Error("the page keeps the key")
	}
	p.visit("/jobs") // another document, the same session
	p.sees(".top .reader", "key "+id)
	p.click(".top button", "Log out")
	p.sees("main h1", "Log in")
	p.visit("/jobs")
	p.sees("main h1", "Log in")

	p.login(secret)
	p.sees("table.list", "a/job")
	p.sees(".top .reader", "Log out")
	n.must("DELETE", "/v1/keys/"+id, nil)
	p.go_("/queues")
	p.sees("main h1", "Log in")
	p.sees("main", "The session has ended")
	p.wait(`!document.querySelector(".reader")`)
	p.login(secret)
	p.sees("main .trouble", "API key")
	p.sees("main", "The session has ended")
}

// TestNoKeyOverPlainHTTP: a key would be readable on its way, so the page does not take one.
func TestNoKeyOverPlainHTTP(t *testing.T) {
	b := launch(t)
	n := locked(t)
	p := b.open(t, strings.Replace(n.url, "127.0.0.1", elsewhere, 1), 1200, 900)
	p.visit("/jobs")
	p.sees("main h1", "Log in")
	p.sees("main .trouble", "plain HTTP")
	_, port, _ := strings.Cut(strings.TrimPrefix(n.url, "http://"), ":")
	p.sees("main code", "ssh -L "+port+":localhost:"+port+" "+elsewhere)
	p.wait(`!document.querySelector("main form, main input")`)
}

// locked starts a node that asks who calls, of whom it knows an admin.
func locked(t *testing.T) *node {
	t.Helper()
	store := "pebble:" + t.TempDir()
	made, err := server.CreateKey(t.Context(), store, carillon.NewKey{
		Grants: []carillon.AccessGrant{{Role: carillon.RoleAdmin, Namespaces: []string{"*"}}}})
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, server.Config{Store: store, Extensions: server.Extensions{Auth: server.AuthKeys}})
	n.key = made.Secret
	return n
}

// login types in a key.
func (p *tab) login(secret string) {
	p.t.Helper()
	p.fill("API key", secret)
	p.click("main button", "Log in")
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
	p.must(p.eval(`document.activeElement.blur()`, nil))
	p.press("n")
	p.focused("name")
	p.press("n", "j")
	p.wait(`location.pathname === "/new" && document.activeElement.value === "nj"`)
}
