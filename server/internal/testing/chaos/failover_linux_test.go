package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	sched "github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/internal/testing/link"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// pairPut is a batch of two jobs, of which the second waits for the first.
type pairPut struct {
	first, second string
	begun         time.Time
	err           error
}

// pairLoad puts such batches until it is ended.
type pairLoad struct {
	mu    sync.Mutex
	puts  []pairPut
	acked chan struct{} // one for each that succeeded
	busy  sync.WaitGroup
}

// run puts batches through one node.
func (l *pairLoad) run(ctx context.Context, c *client.Client, prefix string) {
	for i := 0; ctx.Err() == nil; i++ {
		p := pairPut{first: fmt.Sprintf("%s/%d/first", prefix, i),
			second: fmt.Sprintf("%s/%d/second", prefix, i), begun: time.Now()}
		within, cancel := context.WithTimeout(ctx, 15*time.Second)
		_, p.err = c.PutJobs(within, []sched.Job{
			{Name: p.first, Due: sched.In(time.Hour), Target: sched.WorkerQueue(queue)},
			{Name: p.second, DependsOn: []string{p.first}, Target: sched.WorkerQueue(queue)},
		})
		cancel()
		l.mu.Lock()
		l.puts = append(l.puts, p)
		l.mu.Unlock()
		if p.err == nil {
			l.acked <- struct{}{}
		}
	}
}

// await waits for n batches that succeed from now on.
func (l *pairLoad) await(t *testing.T, n int) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for len(l.acked) > 0 {
		<-l.acked
	}
	for range n {
		select {
		case <-l.acked:
		case <-late.C:
			t.Fatal("batches do not succeed")
		}
	}
}

// TestPostgresFailsOver while batches are put through two nodes, one of which is cut off from the store
// meanwhile: an asynchronous standby takes over, and what was acknowledged last is lost. Each batch is whole,
// or not there; one that was begun after the failover and succeeded is there; and nobody waits for what has
// succeeded.
func TestPostgresFailsOver(t *testing.T) {
	binary := carillonBinary(t)
	pair := realserver.StartPostgresPair(t, append(realserver.Volatile(), "max_connections=300")...)
	cluster := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Logs: logs(t),
		Flags: []string{"--partitions", "16"},
		Store: chaos.Backend{URL: pair.Database(t), Address: pair.Address()}})
	t.Cleanup(func() { must(t, cluster.Close()) })
	starting, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	members, err := cluster.Start(starting, 2)
	must(t, err)
	for round := range 2 {
		l := &pairLoad{acked: make(chan struct{}, 100_000)}
		ctx, stop := context.WithCancel(t.Context())
		for i, m := range members {
			for k := range 4 {
				c := dial(t, m.Node)
				l.busy.Go(func() { l.run(ctx, c, fmt.Sprintf("round-%d/%d/%d", round, i, k)) })
			}
		}
		l.await(t, 20)
		pair.CaughtUp(t)
		pair.Stall()
		l.await(t, 40) // which are lost
		members[1].Back.Cut(link.Silent)
		old := pair.Primary
		pair.Failover(t)
		failed := time.Now()
		members[1].Back.Heal()
		l.await(t, 200)
		stop()
		l.busy.Wait()
		wantWholePairs(t, dial(t, members[round].Node), l.puts, failed)
		old.Discard(t)
		pair.Rejoin(t)
	}
}

// wantWholePairs checks the batches, runs the first job of each, and waits until the second has run.
func wantWholePairs(t *testing.T, c *client.Client, puts []pairPut, failed time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	there := func(name string) bool {
		_, err := c.GetJob(ctx, sched.Key{Namespace: sched.DefaultNamespace, Name: name})
		if err != nil && !errors.Is(err, sched.NotFound) {
			t.Fatalf("%s: %v", name, err)
		}
		return err == nil
	}
	lost, torn := 0, 0
	var names []string
	for _, p := range puts {
		first, second := there(p.first), there(p.second)
		e, ok := errors.AsType[*sched.Error](p.err)
		switch {
		case first != second:
			t.Errorf("torn: the first %v, the second %v; the call, %v after the failover, was told %v", first,
				second, p.begun.Sub(failed), p.err)
			torn++
		case first:
			names = append(names, p.first, p.second)
			if ok && !e.Unknown {
				t.Errorf("a batch is there although the call was told %v", p.err)
			}
		case p.err == nil && p.begun.After(failed):
			t.Errorf("a batch is not there which was put %v after the failover", p.begun.Sub(failed))
		case p.err == nil:
			lost++
		}
	}
	t.Logf("%d batches: %d are there, %d that were acknowledged are lost, %d are torn", len(puts),
		len(names)/2, lost, torn)
	if lost == 0 {
		t.Error("nothing was lost: that was no asynchronous failover")
	}
	runAll(ctx, t, c, names)
}

// runAll triggers every other job, and waits until all have run.
func runAll(ctx context.Context, t *testing.T, c *client.Client, names []string) {
	t.Helper()
	s, err := c.Connect(ctx, sched.Hello{Queues: []string{queue}, WorkerID: "w"})
	must(t, err)
	must(t, s.Send(ctx, sched.WorkRequest{Credits: []sched.Credit{{Queue: queue, N: len(names)}}}))
	for i := 0; i < len(names); i += 2 {
		_, err := c.TriggerJob(ctx, sched.Key{Namespace: sched.DefaultNamespace, Name: names[i]})
		must(t, err)
	}
	left := map[string]bool{}
	for _, name := range names {
		left[name] = true
	}
	for len(left) > 0 {
		msg, err := s.Receive(ctx)
		if err != nil {
			t.Fatalf("%v; %d jobs have not run, as %v", err, len(left), slices.Collect(func(yield func(string) bool) {
				for name := range left {
					if !yield(name) {
						return
					}
					break
				}
			}))
		}
		var done sched.WorkRequest
		for _, r := range msg.Runs {
			delete(left, r.Job)
			done.Results = append(done.Results,
				sched.Result{Token: r.Token, RunID: r.ID, Outcome: sched.OutcomeSuccess})
			done.Credits = append(done.Credits, sched.Credit{Queue: queue, N: 1})
		}
		if len(done.Results) > 0 {
			must(t, s.Send(ctx, done))
		}
	}
	must(t, s.Close())
}
