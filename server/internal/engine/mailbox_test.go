package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// overtake has a consumer report on its attempt, and the store fail the batch that holds the report. Before
// the node knows of that, another consumer, which has the same attempt in doubt, reports something else.
func overtake(t *testing.T, first, second carillon.Result) (acks, stale int, run carillon.Run) {
	t.Helper()
	f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
	var n *node
	var failed atomic.Bool
	said := false
	n = startWith(t, engine.Config{Store: f, Turn: func(int) {
		if failed.Load() && !said {
			said = true
			n.Reports([]delivery.Report{{Result: second}})
		}
	}})
	c := n.consume("q", 1, silent)
	n.putOnce(time.Minute)
	had := c.got()[0]
	first.Token, first.RunID, second.Token, second.RunID = had.Token, had.ID, had.Token, had.ID
	f.fail(func(func() error) error {
		f.fail(nil)
		failed.Store(true)
		return fmt.Errorf("%w: lost", store.ErrUnknown)
	})
	c.say(t, carillon.WorkRequest{Results: []carillon.Result{first}})
	time.Sleep(2 * time.Second)
	acks, stale = c.counts()
	run, err := n.GetRun(context.Background(), "default", had.ID)
	if err != nil || !said {
		t.Errorf("%v; the other consumer has spoken: %v", err, said)
	}
	n.stop()
	return acks, stale, run
}

// TestTheFirstReportCounts: although the term ended before the first report was durable, and another report
// came before the next term heard it.
func TestTheFirstReportCounts(t *testing.T) {
	good := carillon.Result{Outcome: carillon.OutcomeSuccess}
	bad := carillon.Result{Outcome: carillon.OutcomeFailure, Permanent: true, Message: "out of paper"}
	for name, c := range map[string]struct {
		first, second carillon.Result
		want          carillon.RunStatus
	}{
		"a success, then a failure": {good, bad, carillon.RunSucceeded},
		"a failure, then a success": {bad, good, carillon.RunFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				acks, stale, run := overtake(t, c.first, c.second)
				if acks != 1 || stale != 0 || run.Status != c.want {
					t.Errorf("%d accepted, %d stale, the run %v", acks, stale, run.Status)
				}
			})
		})
	}
}
