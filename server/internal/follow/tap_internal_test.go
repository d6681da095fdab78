package follow

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// stub is a store that keeps what is submitted until the test says how it ends.
type stub struct {
	writes []store.Write
	done   func(error)
}

// Submit implements [store.Submitter].
func (s *stub) Submit(writes []store.Write, done func(error)) { s.writes, s.done = writes, done }

// land ends what was submitted.
func (s *stub) land(err error) { s.done(err) }

var errStore = errors.New("the store is away")

// tapped1 is a tap of two partitions with a lane, of which somebody follows partition 1.
func tapped1(t *testing.T) (*Tap, *Line, *stub, *changeLog) {
	t.Helper()
	tap, s := NewTap(2), &stub{}
	log := newChangeLog(func(int) {})
	if err := tap.follow(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	if err := tap.set(t.Context(), 1, copied); err != nil {
		t.Fatal(err)
	}
	line := tap.Line(s)
	return tap, line, s, log
}

func trims(keep ...int) (out []store.Trim) {
	for i, n := range keep {
		out = append(out, store.Trim{Key: carillon.Key{Namespace: "n", Name: string(rune('a' + i))}, Keep: n})
	}
	return out
}

// TestRunsStay: nothing that is copied loses finished runs meanwhile.
func TestRunsStay(t *testing.T) {
	tap, line, s, log := tapped1(t)
	outcome := func(error) {}
	b := &store.Batch{Trims: trims(1, 2, 3), Expire: &store.Expire{Most: 1}, Deletes: []store.Ref{{}}}
	line.Submit([]int{1}, []store.Write{{Batch: b}}, outcome)
	if got := s.writes[0].Batch; len(got.Trims) > 0 || got.Expire != nil || len(got.Deletes) == 0 || len(b.Trims) == 0 {
		t.Errorf("the store gets %+v of %+v", got, b)
	}
	s.land(nil)
	if err := tap.set(t.Context(), 1, followed); err != nil {
		t.Fatal(err)
	}
	line.Submit([]int{1}, []store.Write{{Batch: b}}, outcome)
	if got := s.writes[0].Batch; got != b {
		t.Errorf("then the store gets %+v, want %+v", got, b)
	}
	s.land(nil)
	changes, err := log.take(1)
	if err != nil || len(changes) != 2 {
		t.Fatalf("%d changes, %v", len(changes), err)
	}
	if last, err := codec.DecodeBatch(changes[1]); err != nil || len(last.Trims) != 3 || last.Expire == nil {
		t.Errorf("the last change is %+v, %v", last, err)
	}
}

// TestWhatIsRecorded: only what has been applied, to a partition that is copied; and nothing any more after a
// batch has failed, until somebody follows again.
func TestWhatIsRecorded(t *testing.T) {
	for _, fault := range []error{errStore, store.ErrUnknown, store.ErrFenced} {
		tap, line, s, log := tapped1(t)
		write := func(name string, outcome error) {
			b := &store.Batch{Deletes: []store.Ref{{Key: carillon.Key{Name: name}}}}
			var is error
			line.Submit([]int{0, 1}, []store.Write{{Batch: &store.Batch{}}, {Batch: b}}, func(err error) { is = err })
			s.land(outcome)
			if !errors.Is(is, outcome) {
				t.Errorf("the lane is told %v, want %v", is, outcome)
			}
		}
		recorded := func(want string) {
			t.Helper()
			if changes, err := log.take(0); err != nil || len(changes) > 0 {
				t.Errorf("of a partition that nobody copies: %q, %v", changes, err)
			}
			changes, err := log.take(1)
			names := ""
			for _, text := range changes {
				b, err := codec.DecodeBatch(text)
				if err != nil {
					t.Fatal(err)
				}
				names += b.Deletes[0].Name
			}
			if err != nil || names != want || tap.breaks(1) != (want == "a") {
				t.Errorf("recorded: %q, %v, broken: %v; want %q", names, err, tap.breaks(1), want)
			}
		}
		write("a", nil)
		write("b", fault)
		write("c", nil)
		if err := tap.set(t.Context(), 1, followed); err != nil {
			t.Fatal(err)
		}
		write("d", nil)
		recorded("a")
		if err := tap.set(t.Context(), 1, passed); err != nil {
			t.Fatal(err)
		}
		write("e", nil)
		if err := tap.set(t.Context(), 1, copied); err != nil {
			t.Fatal(err)
		}
		write("f", nil)
		recorded("f")
		write("g", nil)
		if err := tap.set(t.Context(), 1, passed); err != nil {
			t.Fatal(err)
		}
		if err := tap.set(t.Context(), 1, copied); err != nil {
			t.Fatal(err)
		}
		recorded("") // what is of the copy before is of no use
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := tap.set(ended, 1, passed); err == nil {
			t.Error("a copy that has ended sets the tap")
		}
		tap.unfollow()
		write("h", nil)
		if changes, err := log.take(1); err != nil || len(changes) > 0 {
			t.Errorf("after the end: %q, %v", changes, err)
		}
	}
}

// TestHold: what has been sent is waited for, what comes waits.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tap, line, s, _ := tapped1(t)
		other := &stub{}
		second := tap.Line(other)
		var outcome, of error
		line.Submit([]int{1}, []store.Write{{Batch: &store.Batch{}}}, func(err error) { outcome = err })
		held := make(chan error, 1)
		go func() { held <- tap.hold(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-held:
			t.Fatalf("it holds while a batch is with the store: %v", err)
		default:
		}
		second.Submit([]int{0}, []store.Write{{Batch: &store.Batch{}}}, func(err error) { of = err })
		s.land(errStore)
		if err := <-held; err != nil || !errors.Is(outcome, errStore) {
			t.Errorf("hold: %v; the batch: %v", err, outcome)
		}
		if !line.Holds() || !second.Holds() || !line.Quiet() {
			t.Error("a line does not say that it is held")
		}
		if other.done != nil {
			t.Error("a batch is sent while the tap holds")
		}
		tap.release()
		if other.done == nil {
			t.Fatal("a batch is not sent after the tap has let go")
		}
		other.land(nil)
		if of != nil {
			t.Error(of)
		}
		ctx, cancel := context.WithCancel(t.Context())
		second.Submit([]int{0}, []store.Write{{Batch: &store.Batch{}}}, func(err error) { of = err })
		cancel()
		if err := tap.hold(ctx); err == nil {
			t.Error("it holds although the store does not answer")
		}
		line.Submit([]int{1}, []store.Write{{Batch: &store.Batch{}}}, func(err error) { outcome = err })
		other.land(nil)
		s.land(nil)
		if outcome != nil || of != nil || line.Holds() {
			t.Errorf("after it could not hold: %v, %v", outcome, of)
		}
	})
}

// TestEnd: nothing is written after a store has moved.
func TestEnd(t *testing.T) {
	tap, line, s, _ := tapped1(t)
	if err := tap.hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	var outcome error
	line.Submit([]int{1}, []store.Write{{Batch: &store.Batch{}}}, func(err error) { outcome = err })
	tap.end(store.ErrMoved)
	<-tap.Ended()
	if !errors.Is(outcome, store.ErrMoved) {
		t.Errorf("what waited ends with %v", outcome)
	}
	outcome = nil
	line.Submit([]int{1}, []store.Write{{Batch: &store.Batch{}}}, func(err error) { outcome = err })
	if !errors.Is(outcome, store.ErrMoved) || s.done != nil {
		t.Errorf("what comes later ends with %v", outcome)
	}
}

// TestTooMuchToKeep: who does not take the changes is told.
func TestTooMuchToKeep(t *testing.T) {
	log := newChangeLog(func(int) {})
	big := &store.Batch{MetaRecords: []store.MetaRecord{{Kind: 'q', Key: "k", Value: make([]byte, mostBytes/2)}}}
	log.add(0, big)
	if _, err := log.take(0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		log.add(1, big)
	}
	if _, err := log.take(0); !errors.Is(err, errFull) {
		t.Errorf("take: %v, want %v", err, errFull)
	}
}

// TestSettle: before a move nothing is handed out for a moment, in which what has been handed out becomes
// durable.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tap, line, s, _ := tapped1(t)
		settled := make(chan error, 1)
		go func() { settled <- tap.settle(t.Context()) }()
		synctest.Wait()
		if !line.Quiet() {
			t.Error("runs are handed out while it settles")
		}
		if line.Holds() {
			t.Error("while it settles a store that does not answer is taken for one that is not asked")
		}
		outcome := errStore
		line.Submit([]int{1}, []store.Write{{Batch: &store.Batch{}}}, func(err error) { outcome = err })
		s.land(nil)
		if outcome != nil {
			t.Errorf("what has been handed out does not become durable: %v", outcome)
		}
		began := time.Now()
		if err := <-settled; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took <= time.Second {
			t.Errorf("it has settled after %v: an attempt is written a second after it has been handed out", took)
		}
		tap.release()
		if line.Quiet() {
			t.Error("nothing is handed out after it was released")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := tap.settle(ctx); err == nil || line.Quiet() {
			t.Errorf("it could not settle: %v, and is quiet: %v", err, line.Quiet())
		}
	})
}
