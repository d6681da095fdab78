package kubens_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/carillonhq/carillon/server/internal/kubens"
)

// api answers as the API server of Kubernetes does to those who follow namespaces, without a network, so that a test may
// have it in a bubble, and wrongly where it is told to. real_test.go has the real one.
type api struct {
	t testing.TB

	mu      sync.Mutex
	version int
	oldest  int               // watches from before are refused
	uids    map[string]string // of the namespaces that there are
	watches map[*events]bool
	get     func(name string) answer // what is said of one namespace
	closed  bool                     // nobody may list or watch
	whole   bool                     // see plain
	told    []string                 // events for the next watch, if whole
}

// answer is of HTTP.
type answer struct {
	code       int
	kind, body string
}

type object map[string]any

// newAPI returns the API server of a cluster.
func newAPI(t testing.TB, cluster string, names ...string) *api {
	a := &api{t: t, uids: map[string]string{}, watches: map[*events]bool{}}
	a.get = a.truth
	if cluster != "" {
		a.uids["kube-system"] = cluster
	}
	for _, name := range names {
		a.create(name)
	}
	return a
}

// client is one of this server.
func (a *api) client() *kubens.Client {
	c, err := kubens.NewClient(&rest.Config{Host: "http://api.example", Transport: a})
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

func (a *api) create(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.uids[name] = fmt.Sprint("uid-", a.version)
	a.tell("ADDED", a.object(name))
}

func (a *api) remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	gone := a.object(name)
	delete(a.uids, name)
	a.tell("DELETED", gone)
}

// change makes a change that nobody is told of: all watches end, and none can go on from before.
func (a *api) change(f func(uids map[string]string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.oldest = a.version
	f(a.uids)
	for w := range a.watches {
		w.lines <- text(object{"type": "ERROR", "object": a.expired()})
		close(w.lines)
	}
	clear(a.watches)
}

// saying makes the server say this of any one namespace; nil: the truth.
func (a *api) saying(of func(name string) answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.get = of; of == nil {
		a.get = a.truth
	}
}

// plain makes the server send whole namespaces without their kinds and versions, and one event a watch at
// most.
func (a *api) plain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.whole = true
	a.get = func(string) answer { return answer{code: http.StatusNotFound} }
}

// forbid takes the right to list and watch away, or gives it.
func (a *api) forbid(closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = closed
}

func (a *api) object(name string) object {
	return object{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object{"name": name,
		"uid": a.uids[name], "resourceVersion": fmt.Sprint(a.version)}}
}

func (a *api) objects() []object {
	all := []object{}
	for name := range a.uids {
		all = append(all, a.object(name))
	}
	return all
}

// truth is what the server itself says of a namespace.
func (a *api) truth(name string) answer {
	if a.uids[name] != "" {
		return answer{http.StatusOK, "application/json", text(a.object(name))}
	}
	return refusal(http.StatusNotFound, "NotFound", name)
}

// expired is what the server says when it cannot go on from where a watch was.
func (a *api) expired() object {
	return object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": http.StatusGone,
		"message": "too old resource version"}
}

func refusal(code int, reason, name string) answer {
	return answer{code, "application/json", text(object{"kind": "Status", "apiVersion": "v1", "status": "Failure",
		"reason": reason, "code": code, "details": object{"name": name, "kind": "namespaces"}})}
}

// RoundTrip implements [http.RoundTripper].
func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name, one := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/")
	switch {
	case one:
		return a.get(name).to(r), nil
	case a.closed:
		return refusal(http.StatusForbidden, "Forbidden", "").to(r), nil
	case r.URL.Query().Get("watch") == "":
		list := object{"items": a.objects()}
		if !a.whole {
			list["kind"], list["apiVersion"] = "PartialObjectMetadataList", "meta.k8s.io/v1"
			list["metadata"] = object{"resourceVersion": fmt.Sprint(a.version)}
		}
		return answer{http.StatusOK, "application/json", text(list)}.to(r), nil
	}
	from, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if !a.whole && (err != nil || from < a.oldest) {
		return answer{http.StatusGone, "application/json", text(a.expired())}.to(r), nil
	}
	resp := answer{code: http.StatusOK, kind: "application/json"}.to(r)
	resp.Body = a.watch()
	return resp, nil
}

func (w answer) to(r *http.Request) *http.Response {
	return &http.Response{StatusCode: w.code, Status: http.StatusText(w.code), Request: r,
		Header: http.Header{"Content-Type": {w.kind}}, Body: io.NopCloser(strings.NewReader(w.body))}
}

// watch begins a stream of events.
func (a *api) watch() io.ReadCloser {
	w := &events{lines: make(chan string, 1000), closed: make(chan struct{})}
	if !a.whole {
		a.watches[w] = true
		return w
	}
	if len(a.told) > 0 {
		w.lines <- a.told[0]
		a.told = a.told[1:]
	}
	close(w.lines)
	return w
}

func (a *api) tell(kind string, what object) {
	if a.whole {
		delete(what, "kind")
		a.told = append(a.told, event(kind, what))
	}
	for w := range a.watches {
		w.lines <- event(kind, what)
	}
}

func event(kind string, what object) string { return text(object{"type": kind, "object": what}) }

func text(o object) string {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// events is the body of a watch.
type events struct {
	lines  chan string
	closed chan struct{}
	once   sync.Once
	rest   string
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	for e.rest == "" {
		select {
		case line, open := <-e.lines:
			if !open {
				return 0, io.EOF
			}
			e.rest = line
		case <-e.closed:
			return 0, io.ErrClosedPipe
		}
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (e *events) Close() error {
	e.once.Do(func() { close(e.closed) })
	return nil
}
