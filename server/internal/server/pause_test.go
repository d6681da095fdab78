package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/worker"
)

// ledger is what a worker has run, by job.
type ledger struct {
	mu  sync.Mutex
	ran map[string]int
}

func (l *ledger) handle(_ context.Context, run carillon.Run, _ []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ran[run.Job]++
	return nil
}

func (l *ledger) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ran)
}

// post makes a POST to a node and decodes the answer.
func post(t *testing.T, s *server.Server, path, body string) (status int, answer map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.HTTPAddr()+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	status, text := do(t, req)
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return status, answer
}

// row is a queue as a node lists it; the zero value if it is not listed, or another node has not answered.
func row(t *testing.T, c carillon.Queues, kind, name string) (q carillon.Queue) {
	t.Helper()
	page, err := c.ListQueues(t.Context(), carillon.QueueQuery{Kind: kind})
	if err != nil {
		t.Fatal(err)
	}
	if page.Unheard != nil {
		return q
	}
	if i := slices.IndexFunc(page.Queues, func(q carillon.Queue) bool { return q.Name == name }); i >= 0 {
		q = page.Queues[i]
	}
	return q
}

// wait returns how many runs wait in the queue of the tests. A list of queues is up to some seconds old.
func wait(t *testing.T, c carillon.Queues) int {
	t.Helper()
	p, err := c.PurgeQueue(t.Context(), carillon.QueueKey{Name: queue}, carillon.PurgeOptions{DryRun: true})
	if err != nil && carillon.KindOf(err) != carillon.Unavailable { // partitions may be moving
		t.Fatal(err)
	}
	return p.Runs
}

// TestAQueueIsPausedOverThreeNodes while its runs flow: what has not run waits, also while nodes come and go,
// and runs once when it is resumed.
func TestAQueueIsPausedOverThreeNodes(t *testing.T) {
	x := startTrio(t, server.Config{}, 3)
	l, put := &ledger{ran: map[string]int{}}, 0
	t.Cleanup((&rig{t: t}).work(x.clients[1], worker.Options{Concurrency: 2}, l.handle))
	more := func(through int) {
		t.Helper()
		var jobs []carillon.Job
		for range 500 {
			jobs = append(jobs, carillon.Job{Name: fmt.Sprint("flow/", put), Target: carillon.WorkerQueue(queue)})
			put++
		}
		eventually(t, "they are put", func() bool { // partitions may be moving
			_, err := x.clients[through].PutJobs(t.Context(), jobs)
			if err != nil && carillon.KindOf(err) != carillon.Unavailable {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	more(0)
	eventually(t, "runs flow", func() bool { return l.len() > 0 })
	path := "/v1/namespaces/default/queues/worker/" + queue
	status, paused := post(t, x.nodes[2], path+":pause", `{"note": "why"}`)
	if pause, _ := paused["pause"].(map[string]any); status != 200 || pause["note"] != "why" || pause["since"] == "" {
		t.Fatalf("%d %v", status, paused)
	}
	if unheard, _ := paused["unheard"].([]any); len(unheard) > 0 {
		t.Errorf("%v have not heard", unheard)
	}
	more(1)
	ran, said := 0, ""
	t.Cleanup(func() { t.Log("last: ", said) })
	waits := func(when string) {
		t.Helper()
		for _, c := range x.clients {
			eventually(t, when+" all that has not run waits", func() bool {
				q, waiting := row(t, c, "worker", queue), wait(t, c)
				said = fmt.Sprintf("%d put, %d ran, %d wait: %+v", put, l.len(), waiting, q)
				return waiting == put-l.len() && q.InFlight == 0 && q.Pause.Note == "why" && !q.Unserved
			})
		}
		if ran == 0 {
			ran = l.len()
		}
		if now := l.len(); now != ran || now == put {
			t.Errorf("%s %d runs more than %d of %d", when, now-ran, ran, put)
		}
	}
	waits("once it is paused")
	for _, n := range x.nodes {
		if !strings.Contains(metrics(t, n),
			"\ncarillon_queue_paused{kind=\"worker\",namespace=\"default\",queue=\""+queue+"\"} 1\n") {
			t.Error("a node's metrics do not show it")
		}
	}
	x.end(2)
	spread(t, x.nodes[0], 2)
	waits("when a node has gone")
	x.start()
	spread(t, x.nodes[0], 3)
	more(2)
	waits("when a node has come")
	if put, err := x.clients[0].PutJob(t.Context(), carillon.Job{Name: "advised", Target: carillon.WorkerQueue(queue),
		Due: carillon.In(patience * 100)}); err != nil || len(put.Warnings) != 1 || !strings.Contains(put.Warnings[0], "is paused") {
		t.Errorf("a put is told %v, %v", put.Warnings, err)
	}
	if status, resumed := post(t, x.nodes[0], path+":resume", ""); status != 200 || resumed["unheard"] != nil && len(resumed["unheard"].([]any)) > 0 {
		t.Fatalf("%d %v", status, resumed)
	}
	for now := l.len(); now < put; now = l.len() { // many runs, and a slow machine
		eventually(t, "runs flow again", func() bool { return l.len() > now })
	}
	for job, n := range l.ran {
		if n != 1 {
			t.Errorf("%s ran %d times", job, n)
		}
	}
}

// TestAQueueIsPurgedOverThreeNodes: over REST, after a dry run.
func TestAQueueIsPurgedOverThreeNodes(t *testing.T) {
	x := startTrio(t, server.Config{}, 3)
	var jobs []carillon.Job
	for i := range 300 {
		jobs = append(jobs, carillon.Job{Name: fmt.Sprint("waits/", i), Target: carillon.WorkerQueue(queue)})
	}
	if _, err := x.clients[0].PutJobs(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	path := "/v1/namespaces/default/queues/worker/" + queue + ":purge"
	for _, try := range []struct {
		body   string
		purged any
	}{{`{"dry_run": true}`, "300"}, {"", "300"}, {"", "0"}} {
		if status, answer := post(t, x.nodes[1], path, try.body); status != 200 || answer["purged"] != try.purged {
			t.Errorf("%s: %d %v", try.body, status, answer)
		}
	}
	page, err := x.clients[2].ListRuns(t.Context(), carillon.RunQuery{Job: "waits/7"})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].Status != carillon.RunCancelled || page.Runs[0].Reason != "purged" {
		t.Errorf("%+v, %v", page, err)
	}
}

// TestAHostIsPaused: nothing is sent to it. Its name has a port, and names of other kinds have slashes. What is
// no name is refused.
func TestAHostIsPaused(t *testing.T) {
	got := make(chan string, 10)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }))
	t.Cleanup(endpoint.Close)
	c := server.Config{Store: "memory:", Partitions: 4}
	c.Targets.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	s := serve(t, c)
	node := dial(t, s)
	host := strings.TrimPrefix(endpoint.URL, "http://")
	put := func(name string) {
		t.Helper()
		if _, err := node.PutJob(t.Context(), carillon.Job{Name: name, Target: carillon.HTTP(endpoint.URL + "/" + name)}); err != nil {
			t.Fatal(err)
		}
	}
	put("before")
	if path := await(t, got); path != "/before" {
		t.Error(path)
	}
	eventually(t, "it is answered", func() bool { return row(t, node, "http", host).InFlight == 0 })
	const queues = "/v1/namespaces/default/queues/"
	for _, name := range []string{"http/" + host, "dapr/app/shop"} {
		if status, answer := post(t, s, queues+name+":pause", "{}"); status != 200 {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	put("while")
	eventually(t, "its run waits", func() bool {
		q := row(t, node, "http", host)
		return q.Waiting() == 1
	})
	if q := row(t, node, "dapr", "app/shop"); q.Pause.Since.IsZero() {
		t.Errorf("%+v", q)
	}
	if status, answer := post(t, s, queues+"http/"+host+":resume", ""); status != 200 {
		t.Errorf("%d %v", status, answer)
	}
	if path := await(t, got); path != "/while" {
		t.Error(path)
	}
	for path, field := range map[string]string{"fax/q:pause": "kind", "http/a b:pause": "name", "dapr/shop:purge": "name",
		"worker/q:resume?note=x": "note", "worker/q:pause?kind=http": "kind"} {
		if status, answer := post(t, s, queues+strings.ReplaceAll(path, " ", "%20"), ""); status != 400 || answer["field"] != field {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
	if status, answer := post(t, s, queues+"worker/q:pause", `{"notes": "x"}`); status != 400 || answer["field"] != "notes" {
		t.Errorf("%d %v", status, answer)
	}
}
