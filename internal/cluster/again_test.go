package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

// TestWhatTheStoreDidNotTakeIsTriedAgain: a change that has certainly not been made is made as soon as the
// store takes it, within the call's deadline. After the deadline the error says why it was not made.
func TestWhatTheStoreDidNotTakeIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := single(t)
		pass(2 * time.Second) // it knows what it owns
		a.cut.Store(true)
		time.AfterFunc(6*time.Second, func() { a.cut.Store(false) }) // longer than its leases
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := a.Router().PutJob(ctx, far("short"))
		e, ok := errors.AsType[*carillon.Error](err)
		if !ok || e.Kind != carillon.DeadlineExceeded || e.Unknown || !strings.Contains(e.Message, "store did not take the change") {
			t.Errorf("within a short time: %#v", err)
		}
		if put, err := a.Router().PutJob(t.Context(), far("long")); err != nil || !put.Created {
			t.Errorf("within a longer one: %+v, %v", put, err)
		}
	})
}

// TestWhatCouldNotBeReadIsTriedAgain: the connection to the store turns out to be broken at its next use.
func TestWhatCouldNotBeReadIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := single(t)
		pass(2 * time.Second)
		a.blind.Store(true)
		time.AfterFunc(time.Second, func() { a.blind.Store(false) })
		if put, err := a.Router().PutJob(t.Context(), far("job")); err != nil || !put.Created {
			t.Errorf("put: %+v, %v", put, err)
		}
	})
}

// TestWhatMayBeDoneIsNotRepeated: the store has taken a change without confirming it.
func TestWhatMayBeDoneIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := single(t)
		put, err := a.Router().PutJob(t.Context(), far("job"))
		if err != nil {
			t.Fatal(err)
		}
		a.vague.Store(true)
		time.AfterFunc(time.Second, func() { a.vague.Store(false) })
		_, err = a.Router().TriggerJob(t.Context(), put.Job.Key())
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable || !e.Unknown {
			t.Errorf("trigger: %#v", err)
		}
	})
}
