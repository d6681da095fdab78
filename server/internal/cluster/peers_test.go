package cluster_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/cluster"
)

// TestCallsToAMissedNodeComplete: calls that were under way to it complete.
func TestCallsToAMissedNodeComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		f.putTakes = 20 * time.Second
		a, b := f.start("a"), f.start("b")
		f.settle(2*time.Second, a, b)
		sleep(2 * time.Second)
		done := make(chan error, 1)
		go func() {
			_, err := a.Router().PutJob(t.Context(), futureJob(b.ownJob()))
			done <- err
		}()
		synctest.Wait()
		// as if it had not been heard of for too long
		if err := f.store.Leaser().Leave(t.Context(), "b", 0); err != nil {
			t.Fatal(err)
		}
		if err := a.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("put: %v", err)
		}
	})
}

// TestLinkToALostNodeIsClosed: it is closed at once if no call is under way, and after a while if the calls
// do not end.
func TestLinkToALostNodeIsClosed(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newRig(t)
			f.putTakes = time.Hour
			a, b := f.start("a"), f.start("b")
			f.settle(2*time.Second, a, b)
			sleep(2 * time.Second)
			l := f.link("a", "b")
			if busy {
				go func() {
					_, err := a.Router().PutJob(t.Context(), futureJob(b.ownJob()))
					if !errors.Is(err, cluster.ErrLost) {
						t.Errorf("put: %v", err)
					}
				}()
				synctest.Wait()
			}
			b.isolated.Store(true) // so that it does not come back
			if err := errors.Join(f.store.Leaser().Leave(t.Context(), "b", 0), a.Look(t.Context())); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			<-l.closed
			if took := time.Since(began); !busy && took > 0 || busy && took > 2*time.Minute {
				t.Errorf("closed after %v", took)
			}
		})
	}
}
