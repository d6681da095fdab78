package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/telemetry"
	"github.com/carillonhq/carillon/worker"
)

func TestANodeGoesOnWhereItStopped(t *testing.T) {
	c := server.Config{Store: "pebble:" + t.TempDir(), Partitions: 4}
	first, stopFirst := serveUntil(t, c)
	w := &rig{t: t, sched: dial(t, first)}
	w.another = func() carillon.Scheduler { return w.sched }
	holder := w.connect("holder", 1)
	w.put(carillon.Job{Name: "begun", Lease: carillon.MaxLease})
	run := holder.run()
	w.put(carillon.Job{Name: "due while nobody is there", Due: carillon.In(time.Millisecond),
		Target: carillon.WorkerQueue("later")})
	w.put(carillon.Job{Name: "far away", Schedule: "@yearly"})
	holder.close()
	stopFirst()

	second, stopSecond := serveUntil(t, c)
	w.sched = dial(t, second)
	again := w.connect("holder", 0)
	again.succeed(run)
	again.acked(run.Token)
	w.ended(run.ID, carillon.RunSucceeded, 1)
	s, err := w.sched.Connect(t.Context(), carillon.Hello{Queues: []string{"later"}})
	if err != nil {
		t.Fatal(err)
	}
	later := raw{s, t}
	later.send(carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "later", N: 1}}})
	if run := later.run(); run.Job != "due while nobody is there" || run.Attempt != 1 {
		t.Errorf("run: %+v", run)
	}
	if _, err := w.sched.GetJob(t.Context(), key("far away")); err != nil {
		t.Error(err)
	}
	again.close()
	later.close()
	stopSecond()
}

func TestALeavingNodeLetsRunsFinish(t *testing.T) {
	c := server.Config{Store: "pebble:" + t.TempDir(), Partitions: 1, DrainGrace: patience}
	s, stop := serveUntil(t, c)
	w := &rig{t: t, sched: dial(t, s)}
	w.another = func() carillon.Scheduler { return w.sched }
	holder := w.connect("holder", 1)
	w.put(carillon.Job{Name: "long"})
	run := holder.run()
	if err := s.Ready(); err != nil {
		t.Errorf("ready: %v", err)
	}
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	holder.until(func(m carillon.WorkResponse) bool { return m.Drain })
	if _, err := w.sched.Connect(t.Context(),
		carillon.Hello{Queues: []string{queue}}); !errors.Is(err, carillon.Unavailable) {
		t.Errorf("a worker was taken: %v", err)
	}
	status, problem := get(t, "http://"+s.HTTPAddr()+"/readyz")
	if status != http.StatusServiceUnavailable || !strings.Contains(problem, "leaving") {
		t.Errorf("readyz: %d %s", status, problem)
	}
	w.put(carillon.Job{Name: "calls are still taken", Due: carillon.In(time.Hour)})
	holder.succeed(run)
	await(t, stopped)

	again, stopAgain := serveUntil(t, c)
	w.sched = dial(t, again)
	w.ended(run.ID, carillon.RunSucceeded, 1)
	if _, err := w.sched.GetJob(t.Context(), key("calls are still taken")); err != nil {
		t.Error(err)
	}
	stopAgain()
}

func TestAWorkerOutlivesItsNode(t *testing.T) {
	c := server.Config{Store: "pebble:" + t.TempDir(), Partitions: 1}
	first, stopFirst := serveUntil(t, c)
	node := &atomic.Pointer[client.Client]{}
	node.Store(dial(t, first))
	w := &rig{t: t, sched: node.Load()}
	began, goOn := make(chan carillon.Run, 2), make(chan struct{})
	stop := w.work(moving{node}, worker.Options{}, func(_ context.Context, run carillon.Run, _ []byte) error {
		began <- run
		<-goOn
		return nil
	})
	w.put(carillon.Job{Name: "long"})
	run := await(t, began)
	stopFirst()
	close(goOn)
	second, stopSecond := serveUntil(t, c)
	node.Store(dial(t, second))
	w.sched = node.Load()
	stop()
	w.ended(run.ID, carillon.RunSucceeded, 1)
	stopSecond()
}

// moving is the Work of a node that comes back at another address.
type moving struct {
	node *atomic.Pointer[client.Client]
}

// Connect implements carillon.Work.
func (m moving) Connect(ctx context.Context, hello carillon.Hello) (carillon.Session, error) {
	return m.node.Load().Connect(ctx, hello)
}

func TestANodeIsServedOverHTTP(t *testing.T) {
	s := serve(t, server.Config{Store: "memory:", Partitions: 4, Monitoring: server.Monitoring{Version: "v1.2.3"}})
	w := &rig{t: t, sched: dial(t, s)}
	got := make(chan string, 1)
	stop := w.work(w.sched, worker.Options{}, func(_ context.Context, run carillon.Run, data []byte) error {
		got <- string(data)
		return nil
	})
	url := "http://" + s.HTTPAddr()
	body := strings.NewReader(`{"target": {"worker": {"queue": "work"}}, "data": {"x": 1}}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
		url+"/v1/namespaces/default/jobs/a/b", body)
	if err != nil {
		t.Fatal(err)
	}
	if status, answer := do(t, req); status != http.StatusCreated {
		t.Errorf("put: %d %s", status, answer)
	}
	if data := await(t, got); data != `{"x": 1}` {
		t.Errorf("data: %s", data)
	}
	stop()
	for _, path := range []string{"/livez", "/readyz", "/openapi.json"} {
		if status, answer := get(t, url+path); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	_, metrics := get(t, url+"/metrics")
	for _, m := range telemetry.Table() {
		if !strings.Contains(metrics, "# TYPE "+m.Name+" "+m.Type) && !sparse(m) {
			t.Errorf("%s %s is not there", m.Type, m.Name)
		}
	}
	for _, line := range []string{"carillon_jobs_scheduled_total 1", "carillon_runs_fired_total 1",
		"carillon_runs_succeeded_total 1",
		`carillon_attempts_total{kind="worker"} 1`, "carillon_partitions_owned 4", `version="v1.2.3"`,
		"go_goroutines"} {
		if !strings.Contains(metrics, line) {
			t.Errorf("%q is not in the metrics", line)
		}
	}
}

// sparse reports whether a metric may have nothing to show: its labels come with what happens.
func sparse(m telemetry.Metric) bool { return len(m.Labels) > 0 && m.Name != "carillon_build_info" }

func TestANodeIsNotReachedUnderAnyName(t *testing.T) {
	for _, insecure := range []bool{false, true} { // who may listen where has nothing to do with it
		s := serve(t, server.Config{Store: "memory:",
			Browsers: server.Browsers{Hosts: []string{"carillon.example"}}, Insecure: insecure})
		for host, want := range map[string]int{
			"localhost": 200, "127.0.0.1:7080": 200, "[::1]:80": 200, "carillon.example": 200,
			"Carillon.Example:7080": 200, "node-1:7080": 200, "app.localhost": 200, "carillon.internal": 200,
			"carillon.ns.svc.cluster.local:7080": 200, "attacker.example": 403, "localhost.attacker.example:7080": 403,
			"internal.example": 403, "x.carillon.example": 403,
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.HTTPAddr()+"/livez", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			if status, _ := do(t, req); status != want {
				t.Errorf("insecure %v, %s: %d", insecure, host, status)
			}
		}
	}
}

// TestAProbeWithoutAHostIsAnswered: HTTP/1.0 has no Host.
func TestAProbeWithoutAHostIsAnswered(t *testing.T) {
	s := serve(t, server.Config{Store: "memory:"})
	conn, err := net.Dial("tcp", s.HTTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /livez HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 200") {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestAnHTTPTargetIsCalled(t *testing.T) {
	type call struct{ body, run, attempt string }
	calls := make(chan call, 10)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing shows
		calls <- call{string(body), r.Header.Get("Idempotency-Key"), r.Header.Get("Carillon-Attempt")}
		if r.Header.Get("Carillon-Attempt") == "1" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(target.Close)
	s := serve(t, server.Config{Store: "memory:",
		Targets:    server.Targets{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		DrainGrace: patience})
	w := &rig{t: t, sched: s.Scheduler()}
	w.put(carillon.Job{Name: "call", Target: carillon.HTTP(target.URL), Data: carillon.JSON("hi"),
		FailurePolicy: carillon.Constant(time.Millisecond)})
	first, second := await(t, calls), await(t, calls)
	if first.body != `"hi"` || first.attempt != "1" || second.attempt != "2" || first.run != second.run {
		t.Errorf("calls: %+v, %+v", first, second)
	}
}

func TestAPrivateHTTPTargetIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, err := server.Start(t.Context(), server.Config{Store: "memory:", Partitions: 4})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeNode(t, node) })
		w := &rig{t: t, sched: node.Scheduler()}
		w.put(carillon.Job{Name: "call", Target: carillon.HTTP("http://127.0.0.1:9/")})
		for {
			synctest.Wait()
			page, err := w.sched.ListRuns(t.Context(), carillon.RunQuery{Job: "call", Statuses: []carillon.RunStatus{carillon.RunDead}})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Runs) == 1 {
				if m := page.Runs[0].Errors[0].Message; !strings.Contains(m, "allow") {
					t.Errorf("message: %s", m)
				}
				return
			}
		}
	})
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, req)
}

// oneCall keeps no connection, so that none is left at the end.
var oneCall = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func do(t *testing.T, req *http.Request) (status int, body string) {
	t.Helper()
	resp, err := oneCall.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
