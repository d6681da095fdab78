package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sched "github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/worker"
)

// TestAWatchMissesNothingOverKills of the only node.
func TestAWatchMissesNothingOverKills(t *testing.T) {
	n := newNode(t, carillonBinary(t), "pebble:"+filepath.Join(t.TempDir(), "store"))
	tellOverKills(t, watchRuns, n)
}

// TestAWatchMissesNothingInACluster whose nodes are killed in turn.
func TestAWatchMissesNothingInACluster(t *testing.T) {
	tellOverKills(t, watchRuns, three(t)...)
}

// TestAWebhookMissesNothingOverKills of the only node. It may be told twice.
func TestAWebhookMissesNothingOverKills(t *testing.T) {
	n := newNode(t, carillonBinary(t), "pebble:"+filepath.Join(t.TempDir(), "store"), allowLoopback...)
	tellOverKills(t, hookRuns, n)
}

// TestAWebhookMissesNothingInACluster whose nodes are killed in turn: that these were lost is told, too.
func TestAWebhookMissesNothingInACluster(t *testing.T) {
	w := tellOverKills(t, hookRuns, three(t)...)
	lost := func() (n int) {
		for _, e := range w.events {
			if e.Type == sched.EventNodeLost {
				n++
			}
		}
		return n
	}
	w.until(t, func() bool { return lost() >= kills })
	if n := lost(); n < kills {
		t.Errorf("told of %d nodes that were lost, and %d were killed", n, kills)
	}
}

// allowLoopback lets a node send to receivers on this machine.
var allowLoopback = []string{"--allow-target", "127.0.0.0/8"}

// three returns three nodes on one store.
func three(t *testing.T) (nodes []*chaos.Node) {
	store := "redis://" + realserver.StartRedis(t).Address()
	for _, name := range []string{"a", "b", "c"} {
		flags := append([]string{"--node-name", name, "--partitions", "16"}, allowLoopback...)
		nodes = append(nodes, newNode(t, carillonBinary(t), store, flags...))
	}
	return nodes
}

// kills is how many nodes are killed.
const kills = 5

// tellOverKills has start be told what happens while jobs are put and run and nodes are killed, and compares
// that with the history.
func tellOverKills(t *testing.T, start starter, nodes ...*chaos.Node) *watched {
	var addresses []string
	for _, n := range nodes {
		up(t, n)
		addresses = append(addresses, n.GRPC)
	}
	all := strings.Join(addresses, ",")
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()

	w := start(ctx, t, &running, dialAll(t, all))
	running.Go(func() { work(ctx, t, dialAll(t, all)) })
	names := make(chan []string, 1)
	loading, enough := context.WithCancel(ctx)
	defer enough()
	running.Go(func() { names <- putOneShots(loading, dialAll(t, all)) })
	for i := range kills {
		w.await(t, 200*(i+1))
		n := nodes[i%len(nodes)]
		must(t, n.Kill())
		up(t, n)
	}
	enough()
	put := <-names
	c := dialAll(t, all)
	gone(t, c)
	want := history(t, c, put)
	w.awaitAll(t, want)
	if got := w.told(); !maps.Equal(got, want) {
		t.Errorf("told of %d ends of runs, and the history has %d", len(got), len(want))
	}
	t.Logf("%d runs", len(want))
	if len(want) < 500 {
		t.Errorf("only %d runs", len(want))
	}
	return w
}

// dialAll connects to the first of several nodes that answers.
func dialAll(t *testing.T, addresses string) *client.Client {
	t.Helper()
	c, err := client.Dial(addresses)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// work runs whatever is due.
func work(ctx context.Context, t *testing.T, c *client.Client) {
	w := worker.New(c, worker.Options{})
	worker.Handle(w, queue, func(context.Context, sched.Run, struct{}) error { return nil })
	if err := w.Run(ctx); err != nil && ctx.Err() == nil {
		t.Errorf("the worker: %v", err)
	}
}

// putOneShots puts one-shots until ctx ends. It returns the names of all that may be stored.
func putOneShots(ctx context.Context, c *client.Client) (names []string) {
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		<-pace.C
		batch := make([]sched.Job, 10)
		for k := range batch {
			batch[k] = sched.Job{Name: fmt.Sprintf("job/%d/%d", i, k), Target: sched.WorkerQueue(queue),
				Lease: 2 * time.Second}
			names = append(names, batch[k].Name)
		}
		_, _ = c.PutJobs(ctx, batch) // the history says what became of them
	}
	return names
}

// history returns how the runs of jobs ended, by id.
func history(t *testing.T, c *client.Client, names []string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range names {
		page, err := c.ListRuns(t.Context(), sched.RunQuery{Job: name})
		must(t, err)
		for _, r := range page.Runs {
			out[r.ID] = r.Job + " " + r.Status.String()
		}
	}
	return out
}

// starter begins to be told what happens to runs, until ctx ends.
type starter func(ctx context.Context, t *testing.T, running *sync.WaitGroup, c *client.Client) *watched

// watched is what a watcher was told.
type watched struct {
	mu     sync.Mutex
	events []sched.Event
	twice  []string
	again  bool // events may come twice
	ids    map[string]bool
	more   chan struct{} // closed with the next events
}

// watchRuns watches.
func watchRuns(ctx context.Context, t *testing.T, running *sync.WaitGroup, c *client.Client) *watched {
	w := &watched{ids: map[string]bool{}, more: make(chan struct{})}
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	running.Go(func() {
		err := c.Watch(ctx, sched.WatchQuery{Types: []sched.EventType{"run"}}, func(b sched.EventBatch) error {
			begin()
			w.take(b.Events)
			return nil
		})
		if ctx.Err() == nil {
			t.Errorf("the watch ended: %v", err)
			begin()
		}
	})
	<-begun
	return w
}

// hookRuns receives what a webhook is sent.
func hookRuns(ctx context.Context, t *testing.T, running *sync.WaitGroup, c *client.Client) *watched {
	w := &watched{ids: map[string]bool{}, more: make(chan struct{}), again: true}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/hook" {
			return
		}
		var ce struct {
			ID, Type string
			Data     struct{ Job, Run string }
		}
		if err := json.NewDecoder(r.Body).Decode(&ce); err != nil {
			t.Errorf("a webhook was sent: %v", err)
		}
		w.take([]sched.Event{{ID: ce.ID, Type: sched.EventType(strings.TrimPrefix(ce.Type, "com.carillonhq.")),
			Job: ce.Data.Job, Run: ce.Data.Run}})
	}))
	running.Go(func() {
		<-ctx.Done()
		s.Close()
	})
	n, err := c.GetNamespace(ctx, "")
	must(t, err)
	n.Webhooks = []sched.Webhook{{Name: "all", URL: s.URL + "/hook", Types: []sched.EventType{"run", "node"}}}
	_, err = c.PutNamespace(ctx, n)
	must(t, err)
	for begun := false; ctx.Err() == nil && !begun; { // it is told what happens from a moment on, after the put
		_, err := c.PutJob(ctx, sched.Job{Name: "first", Target: sched.HTTP(s.URL)})
		must(t, err)
		w.mu.Lock()
		more := w.more
		w.mu.Unlock()
		select {
		case <-more:
			begun = true
		case <-time.After(time.Second):
		}
	}
	return w
}

func (w *watched) take(events []sched.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		switch {
		case !w.ids[e.ID]:
			w.ids[e.ID] = true
			w.events = append(w.events, e)
		case !w.again:
			w.twice = append(w.twice, e.ID)
		}
	}
	close(w.more)
	w.more = make(chan struct{})
}

// until waits until enough was told.
func (w *watched) until(t *testing.T, enough func() bool) {
	t.Helper()
	late := time.After(patience)
	for {
		w.mu.Lock()
		more, ok := w.more, enough()
		w.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-more:
		case <-late:
			return // the caller sees what is missing
		}
	}
}

// await waits for n events.
func (w *watched) await(t *testing.T, n int) {
	t.Helper()
	w.until(t, func() bool { return len(w.events) >= n })
}

// awaitAll waits until the ends of all these runs were told.
func (w *watched) awaitAll(t *testing.T, runs map[string]string) {
	t.Helper()
	w.until(t, func() bool {
		ended := map[string]bool{}
		for _, e := range w.events {
			ended[e.Run] = ended[e.Run] || e.Type != sched.EventRunRetrying && e.Type != sched.EventRunLate
		}
		return !slices.ContainsFunc(slices.Collect(maps.Keys(runs)), func(id string) bool { return !ended[id] })
	})
	if len(w.twice) > 0 {
		t.Errorf("%d events came twice: %v", len(w.twice), w.twice[:min(3, len(w.twice))])
	}
}

// told returns how runs ended, by id.
func (w *watched) told() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]string{}
	for _, e := range w.events {
		if strings.HasPrefix(e.Job, "job/") && e.Type != sched.EventRunRetrying && e.Type != sched.EventRunLate {
			out[e.Run] = e.Job + " " + strings.TrimPrefix(string(e.Type), "run.")
		}
	}
	return out
}
