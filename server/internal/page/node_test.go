//go:build unix

package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	_ "github.com/carillonhq/carillon/server/store/memory"
	"github.com/carillonhq/carillon/worker"
)

// node is a running node with what the page is shown of, and an HTTP target that fails where it is asked to.
type node struct {
	t      *testing.T
	server *server.Server
	url    string
	sink   string
	key    string // of an API with --auth keys
}

func start(t *testing.T, c server.Config) *node {
	t.Helper()
	release := make(chan struct{})
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/fail"):
			http.Error(w, "no such table", http.StatusInternalServerError)
		case strings.HasPrefix(r.URL.Path, "/refuse"):
			http.Error(w, "no such customer", http.StatusConflict)
		case strings.HasPrefix(r.URL.Path, "/wait"):
			select {
			case <-release:
			case <-r.Context().Done():
			}
		default:
			_, _ = io.WriteString(w, `{"rows": 12}`) // the node is gone if this fails
		}
	}))
	c.GRPC, c.HTTP, c.DrainGrace, c.Partitions = "127.0.0.1:0", "127.0.0.1:0", time.Second, 4
	if c.Store == "" {
		c.Store = "memory:"
	}
	c.Targets.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	s, err := server.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		close(release)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		sink.Close()
	})
	return &node{t: t, server: s, url: "http://" + s.HTTPAddr(), sink: sink.URL}
}

// ask calls the API, and returns the answer's status and body.
func (n *node) ask(method, path string, body any) (int, object) {
	n.t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			n.t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.url+path, bytes.NewReader(text))
	if err != nil {
		n.t.Fatal(err)
	}
	if n.key != "" {
		r.Header.Set("Authorization", "Bearer "+n.key)
	}
	a, err := (&http.Client{Timeout: time.Minute}).Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() {
		if err := a.Body.Close(); err != nil {
			n.t.Error(err)
		}
	}()
	var o object
	if err := json.NewDecoder(a.Body).Decode(&o); err != nil {
		n.t.Fatal(err)
	}
	return a.StatusCode, o
}

// must calls the API, which is to succeed.
func (n *node) must(method, path string, body any) object {
	n.t.Helper()
	status, o := n.ask(method, path, body)
	if status > 299 {
		n.t.Fatalf("%s %s: %d %v", method, path, status, o)
	}
	return o
}

const jobs = "/v1/namespaces/default/jobs/"

func (n *node) put(name string, job object) { n.t.Helper(); n.must("PUT", jobs+name, job) }

func (n *node) toSink(path string) object { return object{"http": object{"url": n.sink + path}} }

func toQueue(name string) object { return object{"worker": object{"queue": name}} }

// work connects a worker for a queue until the test ends. Its runs end with err.
func (n *node) work(queue string, err error) {
	w := worker.New(n.server.Scheduler(), worker.Options{ID: "a-worker"})
	worker.Handle(w, queue, func(context.Context, carillon.Run, carillon.Data) error { return err })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	n.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Error(err)
		}
	})
}

// furnish has something for each room.
func (n *node) furnish() {
	n.t.Helper()
	fails := object{"constant": object{"interval": "1s", "max_retries": 0}, "on_exhausted": "dead"}
	n.must("PUT", "/v1/namespaces/default", object{"concurrency_limits": object{"smtp": 3}})
	n.must("PUT", "/v1/namespaces/default/calendars/holidays", object{"time_zone": "Europe/Berlin",
		"dates": []string{"12-25", "2026-12-24/2027-01-01"}, "note": "public ones"})
	n.put("reports/nightly", object{"schedule": "0 30 2 * * *", "time_zone": "Europe/Berlin", "except": []string{"holidays"},
		"target": n.toSink("/ok"), "labels": object{"team": "bi"}})
	n.put("sync/orders", object{"schedule": "@every 1h", "due_time": "0s", "target": n.toSink("/ok"), "data": object{"page": 1}})
	n.put("slow/one", object{"schedule": "@every 24h", "due_time": "0s", "target": n.toSink("/wait"), "timeout": "10m"})
	n.put("imports/file", object{"due_time": "0s", "target": n.toSink("/fail"), "failure_policy": fails})
	n.put("imports/later", object{"due_time": "2h", "target": n.toSink("/fail"), "failure_policy": fails})
	n.put("mail/digest", object{"schedule": "@every 2h", "due_time": "0s", "target": toQueue("mail"), "concurrency_key": "smtp"})
	n.put("thumbnails/scene", object{"schedule": "@every 3h", "due_time": "0s", "target": toQueue("render")})
	n.put("etl/load", object{"schedule": "@every 4h", "due_time": "4h", "target": n.toSink("/ok"), "depends_on": []string{"etl/extract"}})
	n.put("etl/extract", object{"schedule": "@every 4h", "due_time": "4h", "target": n.toSink("/ok")})
	n.put("kept/still", object{"schedule": "@every 1m", "target": toQueue("mail"), "paused": true, "note": "until Monday"})
	n.must("PUT", "/v1/namespaces/shop/jobs/other", object{"schedule": "@every 1h", "due_time": "1h", "target": toQueue("x")})
	n.work("mail", nil)
	n.must("POST", jobs+"sync/orders:backfill", object{"from": time.Now().Add(-5 * time.Hour).UTC().Format(time.RFC3339)})
}

// runID waits until a job has a run, and returns the id of the newest one.
func (n *node) runID(job string) (id string) {
	n.t.Helper()
	n.until("a run of "+job, func() bool {
		runs, _ := n.must("GET", jobs+job+":runs", nil)["runs"].([]any)
		if len(runs) > 0 {
			id = fmt.Sprint(runs[0].(object)["id"])
		}
		return len(runs) > 0
	})
	return id
}

// deadRun waits until a run of a job is dead for an error that has a text, and returns its id.
func (n *node) deadRun(job, text string) (id string) {
	n.t.Helper()
	n.until("a dead run of "+job+" with "+text, func() bool {
		runs, _ := n.must("GET", jobs+job+":runs?status=dead", nil)["runs"].([]any)
		for _, r := range runs {
			if id = fmt.Sprint(r.(object)["id"]); strings.Contains(fmt.Sprint(r.(object)["errors"]), text) {
				return true
			}
		}
		return false
	})
	return id
}

// until asks until something is there.
func (n *node) until(what string, there func() bool) {
	n.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for late := time.After(time.Minute); !there(); {
		select {
		case <-again.C:
		case <-late:
			n.t.Fatalf("there is not: %s", what)
		}
	}
}
