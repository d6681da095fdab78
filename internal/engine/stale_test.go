package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store/memory"
)

// lapsing starts a node whose only attempt is durable and has just lost its lease of 3 s. The write of that
// is in flight, and fails when fail is called.
func lapsing(t *testing.T) (n *node, c *consumer, r carillon.Run, fail func()) {
	t.Helper()
	f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
	n = start(t, f)
	c = n.consume("q", 1, silent)
	j := carillon.Job{Name: "a", Target: carillon.WorkerQueue("q"), Lease: 3 * time.Second}
	if _, err := n.PutJob(context.Background(), j); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	released := make(chan struct{})
	f.fail(func(func() error) error {
		<-released
		return errors.New("disk gone")
	})
	time.Sleep(1500 * time.Millisecond)
	synctest.Wait()
	if len(c.got()) != 1 {
		t.Fatalf("%d attempts", len(c.got()))
	}
	return n, c, c.got()[0], func() {
		f.fail(nil)
		close(released)
		time.Sleep(2 * time.Second)
		synctest.Wait()
	}
}

// counts is how often a consumer was told that a result is durable, and that it is stale.
func (c *consumer) counts() (acks, stale int) {
	h := c.heard()
	return h.acks, h.stale
}

// TestARefusalWaitsUntilItIsDurable: that the attempt is over. Otherwise the next owner might find it in
// force.
func TestARefusalWaitsUntilItIsDurable(t *testing.T) {
	for name, say := range map[string]func(r carillon.Run) (req carillon.WorkRequest){
		"result": func(r carillon.Run) (req carillon.WorkRequest) {
			req.Results = []carillon.Result{done(r)}
			return req
		},
		"beat, then result": func(r carillon.Run) (req carillon.WorkRequest) {
			req.Heartbeats = []carillon.Heartbeat{{Token: r.Token, RunID: r.ID}}
			return req
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, c, r, fail := lapsing(t)
				if err := c.Send(context.Background(), say(r)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if acks, stale := c.counts(); acks != 0 || stale != 0 {
					t.Errorf("before anything is durable: %d accepted, %d stale", acks, stale)
				}
				fail()
				if err := c.Send(context.Background(), carillon.WorkRequest{Results: []carillon.Result{done(r)}}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if acks, stale := c.counts(); acks == 0 || stale != 0 {
					t.Errorf("in the next term: %d accepted, %d stale", acks, stale)
				}
				run, err := n.GetRun(context.Background(), "default", r.ID)
				if err != nil || run.Status != carillon.RunSucceeded || run.Attempt != 1 {
					t.Errorf("it ended as %+v, %v", run, err)
				}
				n.stop()
			})
		})
	}
}

// TestWhatIsPassedOnIsRefusedDurably: by the owner of the run, too.
func TestWhatIsPassedOnIsRefusedDurably(t *testing.T) {
	for name, say := range map[string]func(n *node, r carillon.Run) error{
		"a result of another node": func(n *node, r carillon.Run) error {
			_, err := engine.Send(context.Background(), n, 0, engine.RelayReports{Reports: []partition.Report{{Result: done(r)}}})
			return err
		},
		"a beat of another node": func(n *node, r carillon.Run) error {
			_, err := engine.Send(context.Background(), n, 0, engine.RelayReports{Heartbeats: []carillon.Heartbeat{{Token: r.Token}}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, _, r, fail := lapsing(t)
				answered := make(chan error, 1)
				go func() { answered <- say(n, r) }()
				synctest.Wait()
				early := len(answered) > 0
				fail()
				err := <-answered
				if early || carillon.KindOf(err) != carillon.Unavailable {
					t.Errorf("the write failed, and the answer, before that: %v, was %v", early, err)
				}
				n.stop()
			})
		})
	}
}
