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
	"github.com/carillonhq/carillon/server/store"
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

// TestACallIsRefusedWhileTheStoreIsAway at once, with the reason; at first it waits for an owner.
func TestACallIsRefusedWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := oneNode(t)
		a.noStore.Store(true)
		for _, c := range []struct{ away, least, most time.Duration }{
			{time.Second, 5 * time.Second, 12 * time.Second}, {5 * time.Second, 0, time.Second},
		} {
			sleep(c.away)
			began := time.Now()
			_, err := a.Router().PutJob(t.Context(), futureJob("x"))
			took := time.Since(began)
			if !errors.Is(err, carillon.Unavailable) || !strings.Contains(err.Error(), "the store has not answered") {
				t.Errorf("after %v: %v", c.away, err)
			}
			if took < c.least || took > c.most {
				t.Errorf("after %v it took %v", c.away, took)
			}
		}
		a.noStore.Store(false)
	})
}

// TestReadsWhileTheStoreTakesNoWrites: they are answered by it as long as it does, and refused at once if not.
func TestReadsWhileTheStoreTakesNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := twoNodes(t)
		name := b.ownJob()
		if _, err := a.Router().PutJob(t.Context(), futureJob(name)); err != nil {
			t.Fatal(err)
		}
		b.kill()
		a.noStore.Store(true)
		sleep(20 * time.Second)
		get := func() (took time.Duration, err error) {
			began := time.Now()
			_, err = a.Router().GetJob(t.Context(), carillon.Key{Namespace: carillon.DefaultNamespace, Name: name})
			return time.Since(began), err
		}
		if took, err := get(); err != nil || took >= time.Second {
			t.Errorf("read: %v, after %v", err, took)
		}
		a.readsHang.Store(true)
		took, err := get()
		if !errors.Is(err, carillon.Unavailable) || !strings.Contains(err.Error(), "the store has not answered") {
			t.Errorf("read of a store that hangs: %v", err)
		}
		if took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		a.readsHang.Store(false)
		a.noStore.Store(false)
	})
}

// TestIDsFromBeforeAMoveFindTheirNode: ids of runs name a partition of when the store had another number of
// partitions, and calls with them reach the node that has the run.
func TestIDsFromBeforeAMoveFindTheirNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := twoNodes(t)
		for _, n := range []*node{a, b} {
			j := futureJob(n.ownJob())
			if _, err := a.Router().PutJob(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			run, err := a.Router().TriggerJob(t.Context(), carillon.Key{Namespace: j.Namespace, Name: j.Name})
			if err != nil {
				t.Fatal(err)
			}
			id, err := store.ParseRunID(run.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, partition := range []uint16{0, 1, 4711} {
				id.Partition = partition
				if is, err := a.Router().GetRun(t.Context(), "", id.String()); err != nil || is.ID != run.ID {
					t.Errorf("the run of %s by partition %d: %q, %v", j.Name, partition, is.ID, err)
				}
			}
			if c, err := a.Router().CancelRun(t.Context(), "", id.String()); err != nil {
				t.Errorf("cancel: %+v, %v", c, err)
			}
		}
	})
}
