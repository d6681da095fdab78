package multisessiontest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/multisession"
)

// TestExpiredRunIsDropped, and its credit is used for the next attempt.
func TestExpiredRunIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a", "b")
		hello := carillon.Hello{Queues: []string{"q"}, WorkerID: "w", Direct: true}
		first, err := w.reach(t.Context(), "a", hello)
		if err != nil {
			t.Fatal(err)
		}
		s := multisession.Open(first, multisession.Options{Hello: hello,
			Connect: w.reach, Over: func(run *carillon.Run) bool {
				return time.Since(run.Started) > run.Lease
			}})
		if r, err := s.Receive(t.Context()); err != nil || len(r.Nodes) != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		synctest.Wait()
		send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 4}}})
		w.nodes["b"].isolated.Store(true)
		w.put("b", 0, 2)
		<-time.After(time.Second)
		time.AfterFunc(3*lease, func() { w.nodes["b"].isolated.Store(false) })
		ctx, cancel := context.WithTimeout(t.Context(), 4*lease)
		defer cancel()
		for {
			r, err := s.Receive(ctx)
			if err != nil {
				break
			}
			for i := range r.Runs {
				if age := time.Since(r.Runs[i].Started); age > lease {
					t.Errorf("%s came %v after it was handed out", r.Runs[i].Token, age)
				}
			}
			if len(r.Runs) > 0 {
				send(t, s, carillon.WorkRequest{Results: results(r.Runs)})
			}
		}
		for _, run := range []string{"run 00000", "run 00001"} {
			if w.done[run] != 1 {
				t.Errorf("%s was done %d times", run, w.done[run])
			}
		}
	})
}

// TestRunThatExpiresUnreceivedIsDropped: runs wait in a relay for a worker that does not receive until their
// leases have ended. It gets none of those, and their credits are used for the next attempts.
func TestRunThatExpiresUnreceivedIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a", "b")
		hello := carillon.Hello{Queues: []string{"q"}, WorkerID: "w", Direct: true}
		first, err := w.reach(t.Context(), "a", hello)
		if err != nil {
			t.Fatal(err)
		}
		s := multisession.Open(first, multisession.Options{Hello: hello,
			Connect: w.reach, Over: func(run *carillon.Run) bool {
				return time.Since(run.Started) > run.Lease
			}})
		if r, err := s.Receive(t.Context()); err != nil || len(r.Nodes) != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		synctest.Wait()
		send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 8}}})
		w.put("a", 0, 2)
		w.put("b", 2, 4)
		<-time.After(3 * lease)
		for done := 0; done < 4; {
			r, err := s.Receive(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i := range r.Runs {
				if age := time.Since(r.Runs[i].Started); age > lease {
					t.Errorf("%s came %v after it was handed out", r.Runs[i].Token, age)
				}
			}
			send(t, s, carillon.WorkRequest{Results: results(r.Runs)})
			done += len(r.Runs)
		}
		shut(t, s)
	})
}
