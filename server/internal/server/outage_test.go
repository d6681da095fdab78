package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/worker"
)

// TestCriticalRunsWhilePostgresIsGone: it is killed under a node on which critical and normal jobs fall due.
// The critical ones run meanwhile and say so, the others when it is back; each has run once, by the history,
// at the time that it was meant for.
func TestCriticalRunsWhilePostgresIsGone(t *testing.T) {
	postgres := realserver.StartPostgres(t, realserver.Volatile()...)
	s, stop := serveUntil(t, server.Config{Store: postgres.Database(t), Name: "node", Partitions: 4, LeaseTTL: 16 * time.Second,
		Outages: server.Outages{FireCritical: true}})
	w := &rig{t: t, sched: dial(t, s)}
	ran := make(chan carillon.Run, 100)
	stopWork := w.work(dial(t, s), worker.Options{}, func(_ context.Context, run carillon.Run, _ []byte) error {
		ran <- run
		return nil
	})
	const each = 8
	due, from := map[string]time.Time{}, time.Now().Add(6*time.Second)
	for i := range each {
		at := from.Add(time.Duration(i) * 100 * time.Millisecond).Truncate(time.Millisecond)
		for class, priority := range map[string]carillon.Priority{"critical": carillon.PriorityCritical,
			"normal": carillon.PriorityNormal} {
			name := fmt.Sprint(class, "/", i)
			due[name] = at
			w.put(carillon.Job{Name: name, Due: carillon.At(at), Priority: priority,
				History: carillon.History{Runs: 10}})
		}
	}
	postgres.Crash(t)
	<-postgres.Process().Exited()
	eventually(t, "the node says that its store is away", func() bool { return s.Ready() != nil })
	runs := map[string]carillon.Run{}
	for range each {
		run := await(t, ran)
		if !strings.HasPrefix(run.Job, "critical/") || run.Metadata["carillon-store"] != "away" {
			t.Errorf("%s ran without the store, and says %v", run.Job, run.Metadata)
		}
		runs[run.Job] = run
	}
	postgres.Up(t)
	for range each {
		run := await(t, ran)
		if !strings.HasPrefix(run.Job, "normal/") {
			t.Errorf("%s ran again though it was reported", run.Job)
		}
		runs[run.Job] = run
	}
	eventually(t, "the node is ready again", func() bool { return s.Ready() == nil })
	stopWork()
	for name, at := range due {
		run := w.ended(runs[name].ID, carillon.RunSucceeded, 1)
		if !run.Scheduled.Equal(at) {
			t.Errorf("%s was meant for %v and says %v", name, at, run.Scheduled)
		}
	}
	stop()
}
