package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
)

// heard is what an engine has said of its store.
type heard struct {
	mu   sync.Mutex
	said []string
}

func (h *heard) say(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, what)
}

func (h *heard) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.said, ", ")
}

func (h *heard) events() engine.Events {
	return engine.Events{ReachEvents: engine.ReachEvents{
		Away: func(time.Time, error) { h.say("away") }, Back: func() { h.say("back") }}}
}

// TestAStoreThatDoesNotAnswer is said to be away once it has failed for a second, is asked until it is back,
// and nothing leaves meanwhile, although the lease lasts.
func TestAStoreThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := newLandlord(), &heard{}
		n := startWith(t, engine.Config{Store: l, Events: h.events()})
		consumer := n.consume("q", 10, success)
		if _, err := n.PutJob(context.Background(), carillon.Job{Name: "a", Due: carillon.In(12 * time.Second),
			Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		l.set(errors.New("out of reach"), false)
		began := time.Now()
		time.Sleep(12 * time.Second) // the last renewal was after 5 s, and lasts until 18.5 s
		synctest.Wait()
		since, err := n.StoreAway()
		if err == nil || err.Error() != "out of reach" {
			t.Fatalf("away: %v", err)
		}
		if d := since.Sub(began); d < 0 || d > 5*time.Second {
			t.Errorf("away since %v after it was", d)
		}
		if err := n.Ready(); err != nil {
			t.Fatalf("the lease has ended: %v", err)
		}
		if got := len(consumer.got()); got != 0 {
			t.Errorf("%d runs left while the store was away", got)
		}
		l.set(nil, false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, err := n.StoreAway(); err != nil {
			t.Errorf("still away: %v", err)
		}
		if got := len(consumer.got()); got != 1 {
			t.Errorf("%d runs when it was back", got)
		}
		if got := h.all(); got != "away, back" {
			t.Errorf("said: %s", got)
		}
		n.stop()
	})
}

// TestAWriteThatHangsHasTheStoreAsked at once, not with the next renewal of the leases; and a renewal that
// fails alone is not worth a word.
func TestAWriteThatHangsHasTheStoreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := newLandlord(), &heard{}
		f := &faulty{Store: l}
		ungrouped := struct{ store.Store }{f}
		n := startWith(t, engine.Config{Store: ungrouped, LeaseTTL: time.Minute, Events: h.events()})
		gate := make(chan struct{})
		f.fail(func(apply func() error) error {
			<-gate
			return apply()
		})
		l.set(errors.New("out of reach"), false)
		go func() {
			_, _ = n.PutJob(context.Background(), carillon.Job{Name: "a", Target: carillon.WorkerQueue("q")}) // it waits
		}()
		time.Sleep(700 * time.Millisecond)
		synctest.Wait()
		if got := h.all(); got != "" {
			t.Errorf("said at once: %s", got)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := h.all(); got != "away" {
			t.Errorf("said: %q", got)
		}
		l.set(nil, false)
		close(gate)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := h.all(); got != "away, back" {
			t.Errorf("said: %q", got)
		}
		n.stop()
	})
}

// TestANodeWithoutTermsFindsTheStore: it has no leases to renew, so its claims tell, and it asks.
func TestANodeWithoutTermsFindsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := newLandlord(), &heard{}
		n := startWith(t, engine.Config{Store: l, LeaseTTL: 4 * time.Second, Events: h.events()})
		l.set(errors.New("out of reach"), false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := n.Ready(); err == nil {
			t.Error("it holds leases that could not be renewed")
		}
		if got := h.all(); got != "away" {
			t.Errorf("said while the store answered reads alone: %q", got)
		}
		n.Assign(nil)
		l.set(nil, false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := h.all(); got != "away, back" {
			t.Errorf("said: %q", got)
		}
		n.stop()
	})
}

// TestWhatWasHandedOutIsFinished while the store is away for much longer than a lease: the result is kept, and
// accepted when it is back; the run does not leave twice.
func TestWhatWasHandedOutIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLandlord()
		n := startWith(t, engine.Config{Store: l, LeaseTTL: 4 * time.Second})
		consumer := n.consume("q", 10, func(carillon.Run) *carillon.Result { return nil })
		if _, err := n.PutJob(context.Background(), carillon.Job{Name: "a", Lease: 10 * time.Minute,
			Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		l.set(errors.New("out of reach"), false)
		time.Sleep(time.Minute)
		runs := consumer.got()
		if len(runs) != 1 {
			t.Fatalf("%d runs", len(runs))
		}
		if err := consumer.Send(context.Background(), carillon.WorkRequest{Results: []carillon.Result{
			{Token: runs[0].Token, RunID: runs[0].ID, Outcome: carillon.OutcomeSuccess}}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := consumer.heard(); got.acks+got.stale+len(got.cancels) > 0 {
			t.Errorf("told while the store was away: %+v", got)
		}
		l.set(nil, false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := consumer.heard(); got.acks != 1 || got.stale+len(got.cancels) > 0 {
			t.Errorf("told when it was back: %+v", got)
		}
		run, err := n.GetRun(context.Background(), "default", runs[0].ID)
		if err != nil || run.Status != carillon.RunSucceeded || run.Attempt != 1 {
			t.Errorf("the run: %+v %v", run, err)
		}
		if got := len(consumer.got()); got != 1 {
			t.Errorf("it left %d times", got)
		}
		n.stop()
	})
}
