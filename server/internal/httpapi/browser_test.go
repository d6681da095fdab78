package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/server"
	_ "github.com/carillonhq/carillon/server/store/memory"
)

// page calls a node as a page of another origin does, and says what it saw. NODE stands for the node's URL.
const page = `<!doctype html><script>
const url = "NODE/v1/namespaces/default/jobs/from/a/page", said = {};
async function call(what, path, init) {
  try {
    const r = await fetch(path, init);
    said[what] = {status: r.status, etag: r.headers.get("ETag") || "", location: r.headers.get("Location") || "", body: await r.text()};
  } catch (e) { said[what] = {refused: String(e)}; }
}
const json = {"Content-Type": "application/json"};
const body = JSON.stringify({due_time: "24h", target: {worker: {queue: "q"}}});
(async () => {
  await call("put", url, {method: "PUT", headers: {...json, "If-None-Match": "*"}, body});
  await call("patch", url, {method: "PATCH", headers: {...json, "If-Match": '"1"'}, body: '{"note": "seen"}'});
  await call("stale", url, {method: "PATCH", headers: {...json, "If-Match": '"1"'}, body: '{"note": "lost"}'});
  await call("get", url);
  await call("trigger", url + ":trigger", {method: "POST"});
  await call("delete", url, {method: "DELETE"});
  await call("missing", url);
  await fetch("/said", {method: "POST", body: JSON.stringify(said)});
})();
</script>`

// saw is what a page saw of one call.
type saw struct {
	Status               int
	ETag, Location, Body string
	Refused              string
}

// TestTrustedPageInABrowser: a page of a trusted origin uses the API, conditions and all, and one of another
// changes and reads nothing. The browser is a real one.
func TestTrustedPageInABrowser(t *testing.T) {
	browser := findBrowser(t)
	said := make(chan map[string]saw, 1)
	var node string
	pages := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/said" {
			text, err := io.ReadAll(r.Body)
			var s map[string]saw
			if err == nil {
				err = json.Unmarshal(text, &s)
			}
			if err != nil {
				t.Errorf("the page said %s: %v", text, err)
			}
			said <- s
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, strings.ReplaceAll(page, "NODE", node)) // the browser is gone if this fails
	}))
	defer pages.Close()
	_, port, err := net.SplitHostPort(pages.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	trusted, other := "http://localhost:"+port, "http://127.0.0.1:"+port
	node = "http://" + startTrusting(t, trusted)
	pages.Start()

	got := visit(t, browser, trusted+"/", said)
	for what, want := range map[string]saw{
		"put": {Status: 201, ETag: `"1"`,
			Location: "/v1/namespaces/default/jobs/from/a/page"}, "patch": {Status: 200, ETag: `"2"`},
		"stale": {Status: 412}, "get": {Status: 200, ETag: `"2"`}, "trigger": {Status: 200},
		"delete": {Status: 200}, "missing": {Status: 404},
	} {
		g := got[what]
		if want.Body = g.Body; g != want || g.Body == "" {
			t.Errorf("%s: the page saw %+v, want %+v", what, g, want)
		}
	}
	for what, g := range visit(t, browser, other+"/", said) {
		if g.Refused == "" {
			t.Errorf("%s of a page of another origin: it saw %+v", what, g)
		}
	}
	r, err := (&http.Client{Timeout: time.Minute}).Get(node + "/v1/namespaces/default/jobs/from/a/page")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Body.Close(); err != nil {
		t.Error(err)
	}
	if r.StatusCode != http.StatusNotFound {
		t.Errorf("the other page put its job: %d", r.StatusCode)
	}
}

// startTrusting starts a node and is where it takes REST.
func startTrusting(t *testing.T, origin string) string {
	t.Helper()
	s, err := server.New(server.Config{Store: "memory:", Partitions: 4, DrainGrace: time.Second,
		GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Browsers: server.Browsers{TrustedOrigins: []string{origin}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s.HTTPAddr()
}

// visit has a browser open a page and is what the page says.
func visit(t *testing.T, browser, url string, said <-chan map[string]saw, flags ...string) map[string]saw {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), browser, append([]string{"--headless", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--remote-debugging-port=0", "--user-data-dir=" + home, url}, flags...)...)
	cmd.Env = append(os.Environ(), "HOME="+home)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var err error
	ended := make(chan struct{})
	go func() {
		err = cmd.Wait()
		close(ended)
	}()
	var s map[string]saw
	select {
	case s = <-said:
	case <-ended:
		t.Fatalf("the browser ended before the page had said anything: %v\n%s", err, out.String())
	case <-time.After(2 * time.Minute):
	}
	_ = cmd.Process.Kill() // it may have ended by itself
	<-ended
	if s == nil {
		t.Fatalf("the page has said nothing\n%s", out.String())
	}
	return s
}

// findBrowser skips the test where there is no browser.
func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CARILLON_TEST_REQUIRE") == "all" {
		t.Fatal("there is no Chromium on PATH")
	}
	t.Skip("there is no Chromium on PATH")
	return ""
}
