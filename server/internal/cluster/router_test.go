package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

// TestReadsOfADeadOwnerUseTheStore: jobs of a dead node are read from the store before its partitions have a
// new owner.
func TestReadsOfADeadOwnerUseTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := twoNodes(t)
		for i := range 30 {
			if _, err := a.Router().PutJob(t.Context(), futureJob(fmt.Sprint("job/", i))); err != nil {
				t.Fatal(err)
			}
		}
		b.kill()
		began := time.Now()
		for i := range 30 {
			go func() {
				k := carillon.Key{Namespace: carillon.DefaultNamespace, Name: fmt.Sprint("job/", i)}
				if _, err := a.Router().GetJob(t.Context(), k); err != nil {
					t.Errorf("get: %v", err)
				}
			}()
		}
		sleep(2 * time.Second)
		synctest.Wait()
		if time.Since(began) > 3*time.Second {
			t.Error("it took too long")
		}
	})
}

// TestRefusedPutIsRetriedUntilDeadline: a change that has certainly not been made is made as soon as the
// store takes it, within the call's deadline. After the deadline the error says why it was not made.
func TestRefusedPutIsRetriedUntilDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := oneNode(t)
		sleep(2 * time.Second) // it knows what it owns
		a.isolated.Store(true)
		time.AfterFunc(6*time.Second, func() { a.isolated.Store(false) }) // longer than its leases
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := a.Router().PutJob(ctx, futureJob("short"))
		e, ok := errors.AsType[*carillon.Error](err)
		if !ok || e.Kind != carillon.DeadlineExceeded || e.Unknown ||
			!strings.Contains(e.Message, "store did not take the change") {
			t.Errorf("within a short time: %#v", err)
		}
		if put, err := a.Router().PutJob(t.Context(), futureJob("long")); err != nil || !put.Created {
			t.Errorf("within a longer one: %+v, %v", put, err)
		}
	})
}

// TestFailedReadIsRetried: the connection to the store turns out to be broken at its next use.
func TestFailedReadIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := oneNode(t)
		sleep(2 * time.Second)
		a.readsFail.Store(true)
		time.AfterFunc(time.Second, func() { a.readsFail.Store(false) })
		if put, err := a.Router().PutJob(t.Context(), futureJob("job")); err != nil || !put.Created {
			t.Errorf("put: %+v, %v", put, err)
		}
	})
}

// TestUnknownOutcomeIsNotRetried: the store has taken a change without confirming it.
func TestUnknownOutcomeIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := oneNode(t)
		put, err := a.Router().PutJob(t.Context(), futureJob("job"))
		if err != nil {
			t.Fatal(err)
		}
		a.writesUnknown.Store(true)
		time.AfterFunc(time.Second, func() { a.writesUnknown.Store(false) })
		_, err = a.Router().TriggerJob(t.Context(), put.Job.Key())
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable || !e.Unknown {
			t.Errorf("trigger: %#v", err)
		}
	})
}
