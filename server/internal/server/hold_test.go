package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/worker"
)

// waits is a job that does not run, and what a read must say of that.
type waits struct {
	job        carillon.Job
	code, text string // text: a regular expression
}

// restHold reads a job or a run over REST.
func restHold(t *testing.T, s *server.Server, path string) (hold struct{ Code, Text, Since, Until string }) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+s.HTTPAddr()+"/v1/namespaces/default/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := oneCall.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var read struct {
		Hold   json.RawMessage
		Status json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&read); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", path, resp.Status, err)
	}
	if strings.HasPrefix(path, "jobs/") {
		var status struct{ Hold json.RawMessage }
		if err := json.Unmarshal(read.Status, &status); err != nil {
			t.Fatal(err)
		}
		read.Hold = status.Hold
	}
	if read.Hold != nil {
		if err := json.Unmarshal(read.Hold, &hold); err != nil {
			t.Fatal(err)
		}
	}
	return hold
}

// says checks what the reads of a job say, and those of its unfinished run, over gRPC and REST.
func (h *waits) says(t *testing.T, s *server.Server, c *client.Client) {
	t.Helper()
	text, said := regexp.MustCompile(h.text), ""
	defer func() {
		if t.Failed() {
			t.Logf("%s says %s", h.job.Name, said)
		}
	}()
	eventually(t, h.job.Name+" says "+h.code, func() bool {
		rest := restHold(t, s, "jobs/"+h.job.Name)
		said = rest.Code + ": " + rest.Text
		return rest.Code == h.code && text.MatchString(rest.Text)
	})
	job, err := c.GetJob(t.Context(), key(h.job.Name))
	if err != nil || job.Status.Hold == nil || job.Status.Hold.Code != h.code || !text.MatchString(job.Status.Hold.Text) {
		t.Fatalf("over gRPC: %+v, %v", job.Status.Hold, err)
	}
	current := job.Status.Current
	if current == nil {
		return
	}
	run, err := c.GetRun(t.Context(), "", current.ID)
	rest := restHold(t, s, "runs/"+current.ID)
	if h.code == carillon.HoldOverlap { // it is the next one that waits
		if err != nil || run.Hold != nil || rest.Code != "" {
			t.Errorf("the run that goes on: %+v, %v; %+v", run.Hold, err, rest)
		}
		return
	}
	if err != nil || run.Hold == nil || run.Hold.Code != h.code || !text.MatchString(run.Hold.Text) {
		t.Errorf("the run, over gRPC: %+v, %v", run.Hold, err)
	}
	if rest.Code != h.code || !text.MatchString(rest.Text) {
		t.Errorf("the run, over REST: %+v", rest)
	}
}

// TestJobsThatDoNotRunSayWhy: each read of each of them does.
func TestJobsThatDoNotRunSayWhy(t *testing.T) {
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(release) })
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(busy.Close)
	s := serve(t, server.Config{Store: "memory:", Partitions: 4, Targets: server.Targets{HostLimit: 1,
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	c := dial(t, s)
	w := &rig{t: t, sched: c, another: func() carillon.Scheduler { return c }}
	if _, err := c.PutNamespace(t.Context(), carillon.Namespace{Name: "default",
		ConcurrencyLimits: map[string]int{"db": 2}}); err != nil {
		t.Fatal(err)
	}
	to := func(url string) carillon.Target { return carillon.Target{HTTP: &carillon.HTTPTarget{URL: url}} }
	full := w.connect("full", 1) // a worker of one run at a time
	w.put(carillon.Job{Name: "occupant"})
	full.run()
	limited := w.serving("limited", 9)
	for _, name := range []string{"holder/1", "holder/2"} {
		w.put(carillon.Job{Name: name, ConcurrencyKey: "db", Target: carillon.WorkerQueue("limited")})
		limited.run()
	}
	w.serving("failing", 1).failOnce(w, carillon.Job{Name: "failed", Target: carillon.WorkerQueue("failing"),
		FailurePolicy: carillon.Constant(time.Hour)})
	w.put(carillon.Job{Name: "refused", Target: to(busy.URL), FailurePolicy: carillon.Constant(time.Hour)})
	w.put(carillon.Job{Name: "hanging", Target: to(slow.URL)})
	serial := w.serving("serial", 9)
	w.put(carillon.Job{Name: "serial", Schedule: "@every 1s", Target: carillon.WorkerQueue("serial")})
	serial.run()

	hour := `is due at 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$`
	prepared := []waits{
		{carillon.Job{Name: "later", Due: carillon.In(time.Hour)}, carillon.HoldNotDue, `^the next run ` + hour},
		{carillon.Job{Name: "paused", Schedule: "@every 1s", Paused: true, Note: "the database moves"}, carillon.HoldPaused,
			`^the job is paused: the database moves$`},
		{carillon.Job{Name: "unserved", Target: carillon.WorkerQueue("nobody")}, carillon.HoldNoConsumer,
			`^no worker serves queue "nobody" of namespace "default"$`},
		{carillon.Job{Name: "crowded"}, carillon.HoldNoCredit,
			`^the only worker of queue "work" has no room: 1 run is in flight$`},
		{carillon.Job{Name: "limited", ConcurrencyKey: "db", Target: carillon.WorkerQueue("limited")}, carillon.HoldLimit,
			`^concurrency key "db": 2 of 2 permits held, by runs of jobs "holder/[12]" and "holder/[12]"; the run is the first`},
		{carillon.Job{Name: "dependent", DependsOn: []string{"later", "nowhere"}}, carillon.HoldDependsOn,
			`^it waits for a success of jobs "later" and "nowhere"; there is no job "nowhere"$`},
		{carillon.Job{Name: "failed"}, carillon.HoldRetrying, `^attempt 1 failed: out of paper; the next one ` + hour},
		{carillon.Job{Name: "refused"}, carillon.HoldRetrying, `^attempt 1 failed: 429 .*; the next one ` + hour},
		{carillon.Job{Name: "spared", Target: to(busy.URL)}, carillon.HoldBackoff,
			`^host "127.0.0.1:\d+" has asked for fewer requests, by a 429 or 503: the next is sent at `},
		{carillon.Job{Name: "behind", Target: to(slow.URL)}, carillon.HoldNoCredit,
			`^host "127.0.0.1:\d+" has 1 request in flight, as many as it is given at a time$`},
		{carillon.Job{Name: "serial"}, carillon.HoldOverlap, `^the run of \S+Z waits for the end of that of \S+Z, which is in attempt 1`},
	}
	for i := range prepared {
		h := &prepared[i]
		if h.code != carillon.HoldRetrying && h.code != carillon.HoldOverlap {
			if h.job.Name == "spared" {
				prepared[i-1].says(t, s, c) // the host has answered
			}
			w.put(h.job)
		}
	}
	for i := range prepared {
		prepared[i].says(t, s, c)
	}
	for _, name := range []string{"occupant", "holder/1", "hanging"} {
		if hold := restHold(t, s, "jobs/"+name); hold.Code != "" {
			t.Errorf("%s runs, and says %+v", name, hold)
		}
	}
	full.close()
	(&waits{carillon.Job{Name: "crowded"}, carillon.HoldNoConsumer,
		`^no worker serves queue "work" of namespace "default"; the last one left at `}).says(t, s, c)
	listsSay(t, c)
}

// listsSay checks what a list of jobs says: what is stored.
func listsSay(t *testing.T, c *client.Client) {
	t.Helper()
	eventually(t, "a list says what is stored", func() bool {
		page, err := c.ListJobs(t.Context(), carillon.JobQuery{})
		if err != nil {
			t.Fatal(err)
		}
		codes := map[string]string{}
		for i := range page.Jobs {
			if hold := page.Jobs[i].Status.Hold; hold != nil {
				codes[page.Jobs[i].Name] = hold.Code
			}
		}
		return codes["later"] == "" && codes["paused"] == "paused" && codes["dependent"] == "depends_on" &&
			codes["failed"] == "retrying" && codes["unserved"] == "staged"
	})
}

// serving opens a session for a queue of its own.
func (w *rig) serving(queue string, n int) raw {
	w.t.Helper()
	s, err := w.another().Connect(w.t.Context(), carillon.Hello{Queues: []string{queue}, WorkerID: queue})
	if err != nil {
		w.t.Fatal(err)
	}
	r := raw{s, w.t}
	r.send(carillon.WorkRequest{Credits: []carillon.Credit{{Queue: queue, N: n}}})
	return r
}

// failOnce puts a job and fails its first attempt.
func (r raw) failOnce(w *rig, j carillon.Job) {
	r.t.Helper()
	w.put(j)
	run := r.run()
	r.send(carillon.WorkRequest{Results: []carillon.Result{{Token: run.Token, RunID: run.ID,
		Outcome: carillon.OutcomeFailure, Message: "out of paper"}}})
	r.acked(run.Token)
}

// TestSilentWorkersAndSlowStartsHoldRuns, in time that costs nothing.
func TestSilentWorkersAndSlowStartsHoldRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, err := server.Start(t.Context(), server.Config{Store: "memory:", Partitions: 4})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeNode(t, node) })
		sched := node.Scheduler()
		w := &rig{t: t, sched: sched, another: func() carillon.Scheduler { return sched }}
		s := w.connect("mute", 5)
		t.Cleanup(s.close)
		w.put(carillon.Job{Name: "unheard", Lease: time.Second, FailurePolicy: carillon.Constant(time.Second)})
		s.run()
		<-time.After(5 * time.Second)
		job, err := sched.GetJob(t.Context(), key("unheard"))
		if err != nil || job.Status.Hold == nil || job.Status.Hold.Code != carillon.HoldSilentWorkers ||
			!strings.HasPrefix(job.Status.Hold.Text, `the only worker of queue "work" is silent: `) {
			t.Fatalf("%+v, %v", job.Status.Hold, err)
		}
		s.send(carillon.WorkRequest{Pong: true})
		s.run()
	})
}

// TestThreeNodesSayWhyARunWaits: whichever is asked, whichever owns the partition, and whichever a worker is
// connected to.
func TestThreeNodesSayWhyARunWaits(t *testing.T) {
	x := startTrio(t, server.Config{}, 1)
	if _, err := x.clients[0].PutNamespace(t.Context(), carillon.Namespace{Name: "default",
		ConcurrencyLimits: map[string]int{"db": 1}}); err != nil {
		t.Fatal(err)
	}
	x.start() // nodes that start know the limit; others learn of it a moment later
	x.start()
	spread(t, x.nodes[0], 3)
	began, release := make(chan struct{}, 100), make(chan struct{})
	handle := func() error {
		began <- struct{}{}
		<-release
		return nil
	}
	w := &rig{t: t}
	stops := []func(){w.work(x.clients[1], worker.Options{Concurrency: 1},
		func(context.Context, carillon.Run, []byte) error { return handle() })}
	jobs := []string{"occupant", "holder"}
	t.Cleanup(func() {
		for _, name := range jobs { // or nodes that leave would wait for attempts of workers that have gone
			if _, err := x.clients[0].DeleteJob(context.Background(), key(name)); err != nil {
				t.Error(err)
			}
		}
		close(release)
		for _, stop := range stops {
			stop()
		}
	})
	x.put(0, carillon.Job{Name: "occupant", Target: carillon.WorkerQueue(queue)})
	await(t, began)
	for i := range 2 { // the second worker has room, and the limit has one permit
		stops = append(stops, x.serve(x.clients[i], "limited", handle))
	}
	x.put(0, carillon.Job{Name: "holder", ConcurrencyKey: "db", Target: carillon.WorkerQueue("limited")})
	await(t, began)
	eventually(t, "the permit is counted once", func() bool {
		const labels = `{key="db",namespace="default"}`
		return x.sum("carillon_limit_held"+labels) == 1 && x.sum("carillon_limit_of"+labels) == 1
	})
	var all []waits
	for p := range x.config.Partitions {
		for _, h := range []waits{
			{carillon.Job{Target: carillon.WorkerQueue(queue)}, carillon.HoldNoCredit,
				`^the only worker of queue "work" has no room: 1 run is in flight$`},
			{carillon.Job{Target: carillon.WorkerQueue("nobody")}, carillon.HoldNoConsumer,
				`^no worker serves queue "nobody" of namespace "default"$`},
			{carillon.Job{Target: carillon.WorkerQueue("limited"), ConcurrencyKey: "db"}, carillon.HoldLimit,
				`^concurrency key "db": 1 of 1 permits held, by runs of job "holder"; `},
		} {
			h.job.Name = x.name(p)
			x.put(p%3, h.job)
			all, jobs = append(all, h), append(jobs, h.job.Name)
		}
	}
	for i := range all {
		h := &all[i]
		for n := range x.nodes {
			eventually(t, fmt.Sprint(h.code, " at node ", n), func() bool {
				job, err := x.clients[n].GetJob(t.Context(), key(h.job.Name))
				if err != nil || job.Status.Hold == nil {
					t.Fatalf("%+v, %v", job.Status, err)
				}
				hold := job.Status.Hold
				return hold.Code == h.code && regexp.MustCompile(h.text).MatchString(hold.Text)
			})
		}
	}
}
