package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// looker watches a node and records what it is told.
type looker struct {
	t      *testing.T
	query  carillon.WatchQuery
	cancel context.CancelFunc
	done   chan error

	mu     sync.Mutex
	events []carillon.Event
	at     []time.Time // of each batch
	last   string      // position
	hold   chan struct{}
}

// look begins to watch, and returns once the watch has begun.
func look(t *testing.T, n *node, q carillon.WatchQuery) *looker {
	t.Helper()
	l := &looker{t: t, query: q, last: q.Position}
	l.again(n)
	return l
}

// again goes on from the last position, at any node.
func (l *looker) again(n *node) {
	l.t.Helper()
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	l.done = make(chan error, 1)
	began := make(chan struct{})
	begin := sync.OnceFunc(func() { close(began) })
	l.query.Position = l.last
	go func() {
		l.done <- n.Watch(ctx, l.query, func(b carillon.EventBatch) error {
			begin()
			l.took(b)
			return nil
		})
		begin()
	}()
	<-began
}

func (l *looker) took(b carillon.EventBatch) {
	l.mu.Lock()
	l.events, l.last, l.at = append(l.events, b.Events...), b.Position, append(l.at, time.Now())
	hold := l.hold
	l.mu.Unlock()
	if hold != nil {
		<-hold
	}
}

// end ends the watch and returns its error.
func (l *looker) end() error {
	l.cancel()
	return <-l.done
}

// got returns what the watcher was told so far.
func (l *looker) got() []carillon.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// position returns where the watch would go on.
func (l *looker) position() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// typesOf returns the events of each job, in their order, as one text.
func typesOf(events []carillon.Event) map[string]string {
	by := map[string][]string{}
	for _, e := range events {
		by[e.Job] = append(by[e.Job], string(e.Type))
	}
	out := map[string]string{}
	for job, types := range by {
		out[job] = strings.Join(types, " ")
	}
	return out
}

// wantOnce checks that no event came twice.
func (l *looker) wantOnce() {
	l.t.Helper()
	seen := map[string]bool{}
	for _, e := range l.got() {
		if seen[e.ID] {
			l.t.Fatalf("%s came twice: %+v", e.ID, e)
		}
		seen[e.ID] = true
	}
}

func putWorker(t *testing.T, n *node, j carillon.Job) {
	t.Helper()
	j.Target = carillon.WorkerQueue("q")
	if _, err := n.PutJob(context.Background(), j); err != nil {
		t.Fatal(err)
	}
}

func TestAWatcherSeesWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 4}))
		putWorker(t, n, carillon.Job{Name: "before", Schedule: "@every 1h"})
		l := look(t, n, carillon.WatchQuery{})
		fails := 1
		c := n.consume("q", 10, func(r carillon.Run) *carillon.Result {
			if r.Job == "twice" && fails > 0 {
				fails--
				return &carillon.Result{Outcome: carillon.OutcomeFailure, Message: "not yet"}
			}
			return success(r)
		})
		putWorker(t, n, carillon.Job{Name: "once"})
		putWorker(t, n, carillon.Job{Name: "twice"})
		key := carillon.Key{Name: "before"}
		for _, paused := range []bool{true, false} {
			if _, err := n.SetPaused(ctx, key, carillon.PauseOptions{Paused: paused}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := n.DeleteJob(ctx, key); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want := map[string]string{"once": "job.created run.succeeded",
			"twice": "job.created run.retrying run.succeeded", "before": "job.paused job.resumed job.deleted"}
		if got := typesOf(l.got()); !maps.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
		l.wantOnce()
		for _, e := range l.got() {
			if e.Job == "once" && e.Run != "" && e.Run != runOf(c, "once") {
				t.Errorf("the run is %s, and the event is of %s", runOf(c, "once"), e.Run)
			}
		}
		if err := l.end(); !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		n.stop()
	})
}

func runOf(c *consumer, job string) string {
	for _, r := range c.got() {
		if r.Job == job {
			return r.ID
		}
	}
	return ""
}

func TestAWatchSelectsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 4}))
		all := look(t, n, carillon.WatchQuery{})
		runs := look(t, n, carillon.WatchQuery{Types: []carillon.EventType{"run"}})
		one := look(t, n, carillon.WatchQuery{Types: []carillon.EventType{carillon.EventJobCreated},
			Namespace: "x", Prefix: "a/"})
		n.consume("q", 10, success)
		putWorker(t, n, carillon.Job{Name: "a/1"})
		putWorker(t, n, carillon.Job{Namespace: "x", Name: "a/2", Schedule: "@every 1h"})
		putWorker(t, n, carillon.Job{Namespace: "x", Name: "b", Schedule: "@every 1h"})
		time.Sleep(time.Second)
		synctest.Wait()
		if got := typesOf(all.got()); len(got) != 3 {
			t.Errorf("all: %v", got)
		}
		if got := typesOf(runs.got()); !maps.Equal(got, map[string]string{"a/1": "run.succeeded"}) {
			t.Errorf("runs: %v", got)
		}
		if got := typesOf(one.got()); !maps.Equal(got, map[string]string{"a/2": "job.created"}) {
			t.Errorf("one: %v", got)
		}
		for _, q := range []carillon.WatchQuery{{Prefix: "a"}, {Types: []carillon.EventType{"run.lost"}},
			{Namespace: "a/b"}, {Position: "x"}} {
			if err := n.Watch(t.Context(), q, nil); !errors.Is(err, carillon.InvalidArgument) {
				t.Errorf("%+v: %v", q, err)
			}
		}
		n.stop()
		for _, l := range []*looker{all, runs, one} {
			if err := <-l.done; !errors.Is(err, carillon.Unavailable) {
				t.Errorf("it ended with the node: %v", err)
			}
		}
	})
}

// TestAResumedWatchMissesNothing over ends of the watch, of the node, and of both, whatever happens meanwhile.
func TestAResumedWatchMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Partitions: 4})
		n := start(t, s)
		l := look(t, n, carillon.WatchQuery{})
		n.consume("q", 10, success)
		want := map[string]string{}
		for i := range 60 {
			for k := range 10 {
				name := fmt.Sprintf("%d/%d", i, k)
				putWorker(t, n, carillon.Job{Name: name})
				want[name] = "job.created run.succeeded"
			}
			switch i % 6 {
			case 1:
				if err := l.end(); !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
			case 2:
				l.again(n)
			case 4:
				n.stop()
				if err := <-l.done; !errors.Is(err, carillon.Unavailable) {
					t.Fatal(err)
				}
				n = start(t, s)
				n.consume("q", 10, success)
				l.again(n)
			}
			time.Sleep(7 * time.Millisecond)
		}
		time.Sleep(5 * time.Minute) // leases of attempts whose results were lost with a node end
		synctest.Wait()
		got := typesOf(l.got())
		for name := range want {
			if strings.ReplaceAll(got[name], " run.retrying", "") != want[name] {
				t.Errorf("%s: %q", name, got[name])
			}
		}
		l.wantOnce()
		n.stop()
	})
}

func TestAnOldPositionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Partitions: 2})
		n := start(t, s)
		l := look(t, n, carillon.WatchQuery{})
		putWorker(t, n, carillon.Job{Name: "a", Schedule: "@every 1h"})
		time.Sleep(3 * partition.EventsFor) // it goes on while somebody watches
		putWorker(t, n, carillon.Job{Name: "b", Schedule: "@every 1h"})
		time.Sleep(time.Second)
		synctest.Wait()
		if got := len(l.got()); got < 2 {
			t.Fatalf("%d events", got)
		}
		if err := l.end(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		time.Sleep(partition.EventsFor - 2*time.Minute)
		l.again(n) // in time
		time.Sleep(time.Minute)
		if err := l.end(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		time.Sleep(partition.EventsFor)
		refused := func(what string) {
			t.Helper()
			l.again(n)
			if err := <-l.done; !errors.Is(err, carillon.FailedPrecondition) {
				t.Errorf("%s: %v", what, err)
			}
		}
		refused("after that")
		other := look(t, n, carillon.WatchQuery{})
		refused("while somebody else watches")
		if err := other.end(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		foreign := start(t, memory.New(memory.Options{Partitions: 2}))
		err := foreign.Watch(t.Context(), carillon.WatchQuery{Position: l.last}, nil)
		if !errors.Is(err, carillon.InvalidArgument) {
			t.Errorf("at another store: %v", err)
		}
		foreign.stop()
		n.stop()
	})
}

// TestASlowWatcherMissesNothing: it stands still for longer than the tail keeps what has happened. One that
// stands still for longer than the store does is told so, and nothing waits for either.
func TestASlowWatcherMissesNothing(t *testing.T) {
	const jobs = 30_000
	synctest.Test(t, func(t *testing.T) {
		for _, most := range []int{jobs, 1000} {
			n := startWith(t, engine.Config{Store: memory.New(memory.Options{Partitions: 4}),
				Partition: partition.Config{EventsMost: most}})
			l := look(t, n, carillon.WatchQuery{})
			quick := look(t, n, carillon.WatchQuery{})
			l.mu.Lock()
			l.hold = make(chan struct{})
			l.mu.Unlock()
			for i := 0; i < jobs; i += 1000 {
				batch := make([]carillon.Job, 1000)
				for k := range batch {
					batch[k] = carillon.Job{Name: fmt.Sprint(i + k), Schedule: "@every 1000h", Target: carillon.WorkerQueue("q")}
				}
				if _, err := n.PutJobs(t.Context(), batch); err != nil {
					t.Fatal(err)
				}
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if got := len(quick.got()); got != jobs {
				t.Errorf("the other watcher has %d events", got)
			}
			close(l.hold)
			time.Sleep(time.Second)
			synctest.Wait()
			if most < jobs {
				if err := <-l.done; !errors.Is(err, carillon.FailedPrecondition) {
					t.Errorf("it ended with %v, after %d events", err, len(l.got()))
				}
			} else if got := len(l.got()); got != jobs {
				t.Errorf("%d events", got)
			}
			l.wantOnce()
			n.stop()
		}
	})
}

// TestAnIdleWatchTellsItsPosition although nothing happens that it has asked for: or it would be too old to
// go on from.
func TestAnIdleWatchTellsItsPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 2}))
		l := look(t, n, carillon.WatchQuery{Types: []carillon.EventType{carillon.EventRunDead}})
		first := l.position()
		putWorker(t, n, carillon.Job{Name: "a", Schedule: "@every 1000h"})
		time.Sleep(time.Minute)
		synctest.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.at) < 4 || len(l.events) != 0 || l.last == first {
			t.Errorf("%d times, %d events, position %q after %q", len(l.at), len(l.events), l.last, first)
		}
		n.stop()
	})
}

// TestWhatNobodyWatchesIsNotRecorded: what nobody watches is not recorded, and what nobody watches any more ends.
func TestWhatNobodyWatchesIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Partitions: 1})
		n := start(t, s)
		count := func() int {
			shard, err := s.Shard(0, store.Term{})
			if err != nil {
				t.Fatal(err)
			}
			records, err := shard.MetaRecords(t.Context(), store.MetaQuery{Kind: store.KindEvents, Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			return len(records)
		}
		put := func(name string) { putWorker(t, n, carillon.Job{Name: name, Schedule: "@every 1000h"}) }
		if put("a"); count() != 0 {
			t.Error("recorded before anybody watched")
		}
		l := look(t, n, carillon.WatchQuery{})
		if put("b"); count() != 2 { // the first says that not everything was recorded before
			t.Error("not recorded")
		}
		if err := l.end(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if put("c"); count() != 3 {
			t.Error("not recorded, though the watcher may come back")
		}
		time.Sleep(partition.EventsFor + time.Minute)
		put("d")
		time.Sleep(5 * time.Second)
		if n := count(); n != 0 {
			t.Errorf("%d records are left", n)
		}
		n.stop()
	})
}
