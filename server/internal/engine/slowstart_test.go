package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/worker"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestS05SlowStart: a node starts with 5,000 runs that became due while it was down. The number in flight
// grows step by step, critical runs go first, and all are done.
func TestS05SlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, initial, step = 5000, 16, 2 * time.Second
		ctx := context.Background()
		s := memory.New(memory.Options{})
		n := start(t, s)
		for i := 0; i < jobs; i += 1000 {
			batch := make([]carillon.Job, 1000)
			for k := range batch {
				batch[k] = carillon.Job{Name: fmt.Sprintf("herd/%d", i+k),
					Due:    carillon.In(time.Duration(5000+i+k) * time.Millisecond),
					Target: carillon.WorkerQueue(fmt.Sprint("q", k%2))}
				if k%10 == 0 {
					batch[k].Priority = carillon.PriorityCritical
				}
			}
			if _, err := n.PutJobs(ctx, batch); err != nil {
				t.Fatal(err)
			}
		}
		n.stop()
		time.Sleep(time.Minute)

		began := time.Now()
		e := engine.New(engine.Config{Store: s})
		n = &node{Engine: e, t: t, hub: dispatch.New(e, dispatch.Options{
			Accept: worker.Accept(worker.Options{}), SlowStart: dispatch.SlowStart{Initial: initial, Step: step},
		})}
		if err := n.Start(ctx, n.hub); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		inFlight, done, early := 0, 0, 0
		watch := func(session carillon.Session, queue string) {
			for {
				msg, err := session.Receive(ctx)
				if err != nil {
					return
				}
				for _, r := range msg.Runs {
					mu.Lock()
					inFlight++
					bound := initial << (time.Since(began) / step)
					if bound < dispatch.DefaultSlowMost && inFlight > bound {
						t.Errorf("%d in flight %v after the start", inFlight, time.Since(began))
					}
					if done < 400 && r.Job[len(r.Job)-1] == '0' {
						early++
					}
					done++
					mu.Unlock()
					go func() {
						time.Sleep(500 * time.Millisecond)
						mu.Lock()
						inFlight--
						mu.Unlock()
						_ = session.Send(ctx, carillon.WorkRequest{ // the session ends with the test
							Results: []carillon.Result{{Token: r.Token, RunID: r.ID, Outcome: carillon.OutcomeSuccess}},
							Credits: []carillon.Credit{{Queue: queue, N: 1}}})
					}()
				}
			}
		}
		for _, q := range []string{"q0", "q1"} {
			session, err := n.hub.Connect(ctx, carillon.Hello{Namespace: "default", Queues: []string{q}})
			if err != nil {
				t.Fatal(err)
			}
			if err := session.Send(ctx, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: q, N: 4000}}}); err != nil {
				t.Fatal(err)
			}
			go watch(session, q)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if done != jobs || inFlight != 0 {
			t.Errorf("%d of %d done, %d in flight", done, jobs, inFlight)
		}
		// a fair share would be 40; some partitions begin before others have announced theirs
		if early < 250 {
			t.Errorf("only %d of the first 400 were critical", early)
		}
		n.stop()
	})
}
