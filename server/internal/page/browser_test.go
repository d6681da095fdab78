//go:build unix

package page_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for what the page is to show.
const patience = 20 * time.Second

// elsewhere is a name by which the browser reaches this machine as if it were another.
const elsewhere = "node.internal"

// browser is a Chromium that is driven by its own protocol, over a pipe.
type browser struct {
	cmd      *exec.Cmd
	to, from *os.File
	home     string
	out      bytes.Buffer

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
	hears   map[string]func(method string, params json.RawMessage) // by session
	over    error
	ended   chan struct{} // what it says has been read to the end
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// shared is the browser of all tests, which open tabs of their own in it.
var shared *browser

func TestMain(m *testing.M) {
	m.Run()
	if shared == nil {
		return
	}
	if err := shared.end(); err != nil {
		panic(err)
	}
}

// launch starts the browser if it is not there yet, and skips the test where there is none.
func launch(t *testing.T) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser is slow")
	}
	if shared == nil {
		shared = startBrowser(t)
	}
	return shared
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	b := &browser{waiting: map[int]chan answer{}, hears: map[string]func(string, json.RawMessage){},
		ended: make(chan struct{})}
	theirs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	program := findBrowser(t)
	if b.home, err = os.MkdirTemp("", "carillon-page"); err != nil { //nolint:usetesting // it outlives the test
		t.Fatal(err)
	}
	b.to, b.from = to, from
	b.cmd = exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-extensions",
		"--disable-component-update", "--force-device-scale-factor=1", "--remote-debugging-pipe",
		"--host-resolver-rules=MAP "+elsewhere+" 127.0.0.1", "--user-data-dir="+b.home, "about:blank")
	b.cmd.Env = append(os.Environ(), "HOME="+b.home, "TZ=Europe/Berlin")
	b.cmd.ExtraFiles = []*os.File{theirs, says} // 3 and 4
	b.cmd.Stdout, b.cmd.Stderr = &b.out, &b.out
	b.cmd.WaitDelay = 5 * time.Second
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{theirs, says} {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	go b.listen(from)
	return b
}

func (b *browser) end() error {
	_ = b.cmd.Process.Kill() // it may have ended by itself
	_ = b.cmd.Wait()         // it was killed
	<-b.ended
	return errors.Join(b.to.Close(), b.from.Close(), os.RemoveAll(b.home))
}

// findBrowser skips the test where there is no browser.
func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, "there is no Chromium on PATH")
	return ""
}

// missing skips a test for which the machine has not what it needs, unless all is required.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CARILLON_TEST_REQUIRE") == "all" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// listen reads what the browser says: messages of JSON that end in a zero byte.
func (b *browser) listen(from io.Reader) {
	defer close(b.ended)
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			b.over = fmt.Errorf("the browser has gone: %w", err)
			for id, wait := range b.waiting {
				delete(b.waiting, id)
				close(wait)
			}
			b.mu.Unlock()
			return
		}
		var m struct {
			answer
			ID        int
			Method    string
			Params    json.RawMessage
			SessionID string
		}
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			continue // it is nothing that the protocol knows
		}
		b.mu.Lock()
		wait, hear := b.waiting[m.ID], b.hears[m.SessionID]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		switch {
		case m.Method != "" && hear != nil:
			hear(m.Method, m.Params)
		case wait != nil:
			wait <- m.answer
		}
	}
}

// call asks the browser, in a session of a tab or without one.
func (b *browser) call(session, method string, params, result any) error {
	b.mu.Lock()
	if b.over != nil {
		b.mu.Unlock()
		return b.over
	}
	b.last++
	id, wait := b.last, make(chan answer, 1)
	b.waiting[id] = wait
	b.mu.Unlock()
	m := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		m["sessionId"] = session
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		return err
	}
	select {
	case a, ok := <-wait:
		switch {
		case !ok:
			return fmt.Errorf("%s: the browser has gone", method)
		case a.Error != nil:
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		case result == nil:
			return nil
		}
		return json.Unmarshal(a.Result, result)
	case <-time.After(2 * time.Minute):
		return fmt.Errorf("%s: no answer", method)
	}
}

// tab is one page in the browser.
type tab struct {
	t       *testing.T
	browser *browser
	session string
	node    string // http://host:port

	mu       sync.Mutex
	requests []string
	trouble  []string // what the browser holds against the page
	bytes    int      // that came over the network
}

// object is one of JSON.
type object = map[string]any

// watch is run before the page: it remembers what its policy forbade, and what a hostile text would have done.
const watch = `window.violations = []; window.pwned = false; window.alert = () => { window.pwned = true };
addEventListener("securitypolicyviolation", (e) => window.violations.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample));`

// open opens a tab for a node, of some size.
func (b *browser) open(t *testing.T, node string, wide, high int) *tab {
	t.Helper()
	p := &tab{t: t, browser: b, node: node}
	var made struct{ TargetID string }
	p.must(b.call("", "Target.createTarget", object{"url": "about:blank"}, &made))
	var joined struct{ SessionID string }
	p.must(b.call("", "Target.attachToTarget", object{"targetId": made.TargetID, "flatten": true}, &joined))
	p.session = joined.SessionID
	b.mu.Lock()
	b.hears[p.session] = p.hear
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		p.do(domain+".enable", object{}, nil)
	}
	p.do("Page.addScriptToEvaluateOnNewDocument", object{"source": watch}, nil)
	p.resize(wide, high)
	t.Cleanup(func() {
		p.check()
		if err := b.call("", "Target.closeTarget", object{"targetId": made.TargetID}, nil); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *tab) resize(wide, high int) {
	p.t.Helper()
	p.do("Emulation.setDeviceMetricsOverride", object{"width": wide, "height": high, "deviceScaleFactor": 1,
		"mobile": wide < 700}, nil)
}

// scheme is "light" or "dark".
func (p *tab) scheme(name string) {
	p.t.Helper()
	p.do("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": name}}}, nil)
}

func (p *tab) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *tab) do(method string, params, result any) {
	p.t.Helper()
	p.must(p.browser.call(p.session, method, params, result))
}

// hear notes what the browser tells by itself.
func (p *tab) hear(method string, params json.RawMessage) {
	var e struct {
		Request           struct{ URL string }
		EncodedDataLength float64
		Entry             struct{ Source, Level, Text, URL string }
		ExceptionDetails  json.RawMessage
		Type              string
		Args              json.RawMessage
	}
	if json.Unmarshal(params, &e) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case method == "Network.requestWillBeSent":
		p.requests = append(p.requests, e.Request.URL)
	case method == "Network.loadingFinished":
		p.bytes += int(e.EncodedDataLength)
	case method == "Runtime.exceptionThrown":
		p.trouble = append(p.trouble, "exception: "+string(e.ExceptionDetails))
	case method == "Runtime.consoleAPICalled" && e.Type == "error":
		p.trouble = append(p.trouble, "console: "+string(e.Args))
	case method == "Log.entryAdded" && strings.HasPrefix(e.Entry.Text, "The Cross-Origin-Opener-Policy header has been ignored"):
		// It means nothing over plain HTTP from another machine.
	case method == "Log.entryAdded" && e.Entry.Level == "error" && e.Entry.Source != "network":
		p.trouble = append(p.trouble, e.Entry.Source+": "+e.Entry.Text)
	}
}

// check fails the test if the page asked anybody else, was held back by its policy, or ran what it should
// only have shown.
func (p *tab) check() {
	p.t.Helper()
	var seen struct {
		Violations []string
		Pwned      bool
	}
	if err := p.eval(`({violations: window.violations ?? [], pwned: window.pwned === true})`, &seen); err != nil {
		p.t.Error(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range append(seen.Violations, p.trouble...) {
		p.t.Errorf("the browser holds against the page: %s", v)
	}
	p.trouble = nil
	if seen.Pwned {
		p.t.Error("a text was run")
	}
	for _, r := range p.requests {
		if !strings.HasPrefix(r, p.node+"/") && !strings.HasPrefix(r, "about:") &&
			!strings.HasPrefix(r, "data:") { // the browser's own pictures, in fields of dates
			p.t.Errorf("the page asked for %s", r)
		}
	}
}

// eval runs JavaScript in the page and waits for what it promises.
func (p *tab) eval(script string, result any) error {
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := p.browser.call(p.session, "Runtime.evaluate", object{"expression": script, "awaitPromise": true,
		"returnByValue": true, "userGesture": true}, &r)
	switch {
	case err != nil:
		return err
	case r.ExceptionDetails != nil:
		return fmt.Errorf("%s: %s", r.ExceptionDetails.Text, r.ExceptionDetails.Exception.Description)
	case result == nil:
		return nil
	}
	return json.Unmarshal(r.Result.Value, result)
}

// js is a value as JavaScript writes it.
func js(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return string(text)
}

// visit goes to an address of the node.
func (p *tab) visit(path string) {
	p.t.Helper()
	p.do("Page.navigate", object{"url": p.node + path}, nil)
	p.sees(`main h1`, "")
}

// until waits for a condition in the page.
func (p *tab) until(condition string) error {
	var is bool
	err := p.eval(fmt.Sprintf(`new Promise((done) => {
  const end = performance.now() + %d;
  const look = () => {
    let is = false;
    try { is = !!(%s) } catch {}
    if (is || performance.now() > end) done(is); else setTimeout(look, 30);
  };
  look();
})`, patience.Milliseconds(), condition), &is)
	if err == nil && !is {
		err = errors.New("it never came: " + condition)
	}
	return err
}

// wait fails the test if a condition does not come true.
func (p *tab) wait(condition string) {
	p.t.Helper()
	for range 2 {
		err := p.until(condition)
		if err == nil {
			return
		}
		if strings.Contains(err.Error(), "navigated") || strings.Contains(err.Error(), "destroyed") ||
			strings.Contains(err.Error(), "context") {
			continue // another document came in between
		}
		var text string
		_ = p.eval(`location.href + "\n" + document.body.innerText.slice(0, 3000)`, &text) // it only explains
		p.t.Fatalf("%v\n%s", err, text)
	}
	p.t.Fatalf("%s: the page is left again and again", condition)
}

// sees waits for an element whose text contains something.
func (p *tab) sees(selector, text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) => e.textContent.includes(%s))`, js(selector), js(text)))
}

// click clicks the first element whose text or label contains something.
func (p *tab) click(selector, text string) {
	p.t.Helper()
	found := fmt.Sprintf(`[...document.querySelectorAll(%s)].find((e) => !e.disabled && ((e.getAttribute("aria-label") ?? "") + " " + e.textContent).includes(%s))`,
		js(selector), js(text))
	p.wait(found)
	p.must(p.eval(found+`.click()`, nil))
}

// fill types into a field, by its label.
func (p *tab) fill(label, value string) {
	p.t.Helper()
	p.typeInto(fmt.Sprintf(`document.getElementById([...document.querySelectorAll("label")].findLast((l) => l.textContent.includes(%s)).htmlFor)`, js(label)), value)
}

// enter types into a field of a form, by its path in the API.
func (p *tab) enter(path, value string) {
	p.t.Helper()
	p.typeInto(`document.getElementById(`+js("f-"+path)+`)`, value)
}

// typeInto types into what a script finds.
func (p *tab) typeInto(found, value string) {
	p.t.Helper()
	p.wait(found)
	p.must(p.eval(fmt.Sprintf(`(() => {
  const e = %s;
  if (e.type === "checkbox") {
    if (e.checked !== (%s === "true")) e.click();
    return;
  }
  const proto = e instanceof HTMLTextAreaElement ? HTMLTextAreaElement : e instanceof HTMLSelectElement ? HTMLSelectElement : HTMLInputElement;
  Object.getOwnPropertyDescriptor(proto.prototype, "value").set.call(e, %s);
  e.dispatchEvent(new Event(e instanceof HTMLSelectElement ? "change" : "input", {bubbles: true}));
})()`, found, js(value), js(value)), nil))
}

// press types keys, as a keyboard does.
func (p *tab) press(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		text := k
		if len(k) > 1 {
			text = map[string]string{"Enter": "\r"}[k]
		}
		p.do("Input.dispatchKeyEvent", object{"type": "keyDown", "key": k, "text": text}, nil)
		p.do("Input.dispatchKeyEvent", object{"type": "keyUp", "key": k}, nil)
	}
}

// text is the text of the page.
func (p *tab) text() string {
	p.t.Helper()
	var text string
	p.must(p.eval(`document.body.innerText`, &text))
	return text
}
