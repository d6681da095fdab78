package sidecar

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch/stream"
)

func TestRunsAndResults(t *testing.T) {
	d := newFakeSink()
	s := d.open(t, Hello{Jobs: true, ActorTypes: []string{"cat", "cat", ""}}, Options{})
	defer s.Close()
	cat := &carillon.DaprTarget{AppID: "other", ActorType: "cat", ActorID: "tom"}
	d.deliver(t, app, 0, 2, 0)
	d.deliver(t, cat, 2, 3, 0)
	ds := receive(t, s)
	for i := range ds {
		if ds[i].ID != uint64(i+1) || ds[i].Run.Token != token(i) {
			t.Fatalf("%+v", ds[i])
		}
	}
	if len(ds) != 3 || ds[0].Target != app || ds[2].Target != cat {
		t.Fatalf("%+v", ds)
	}
	result(t, s, 3, true, "not told")
	result(t, s, 1, false, "why")
	want := []delivery.Report{
		{Result: carillon.Result{Token: token(2), Outcome: carillon.OutcomeSuccess}, Namespace: "n",
			Worker: "app", From: s},
		{Result: carillon.Result{Token: token(0), Outcome: carillon.OutcomeFailure, Message: "why"},
			Namespace: "n", Worker: "app", From: s},
	}
	if !reflect.DeepEqual(d.reports, want) {
		t.Fatalf("%+v", d.reports)
	}
	s.Accepted(token(2))
	s.Stale(token(0))
	// one that it never had, two that it has answered, one of the future
	for _, id := range []uint64{0, 1, 3, 4} {
		if err := s.Result(id, true, ""); !errors.Is(err, carillon.InvalidArgument) {
			t.Fatalf("%d: %v", id, err)
		}
	}
	w := d.hub.Workers()
	if len(w) != 1 || w[0].Kind != "dapr" || w[0].ID != "app" || w[0].InFlight != 1 ||
		!slices.Equal(w[0].Queues, []string{"app/app", "actor/cat"}) {
		t.Fatalf("%+v", w)
	}
	d.deliver(t, app, 3, 4, 0)
	if ds := receive(t, s); ds[0].ID != 4 {
		t.Fatalf("%+v", ds)
	}
}

func TestBatchesAreBounded(t *testing.T) {
	d := newFakeSink()
	s := d.open(t, Hello{Jobs: true}, Options{Bounds: stream.Bounds{MessageBytes: 2000, MessageItems: 3}})
	defer s.Close()
	d.deliver(t, app, 0, 4, 0)    // by items
	d.deliver(t, app, 4, 5, 5000) // larger than a batch
	d.deliver(t, app, 5, 8, 1000) // by bytes
	for _, n := range []int{3, 1, 1, 1, 1, 1} {
		if ds := receive(t, s); len(ds) != n {
			t.Fatalf("%d runs, not %d", len(ds), n)
		}
	}
}

// TestManyAtOnce has one stream take 20,000 runs that are due at the same time, without a result.
func TestManyAtOnce(t *testing.T) {
	const n = 20_000
	d := newFakeSink()
	s := d.open(t, Hello{Jobs: true}, Options{})
	defer s.Close()
	d.deliver(t, app, 0, n, 0)
	for got := 0; got < n; {
		got += len(receive(t, s))
	}
}

func TestCloseRedelivers(t *testing.T) {
	d := newFakeSink()
	a, b := d.open(t, Hello{Jobs: true}, Options{}), d.open(t, Hello{Jobs: true}, Options{})
	d.deliver(t, app, 0, 6, 0)
	ds := receive(t, a)
	result(t, a, ds[1].ID, true, "")
	d.deliver(t, app, 6, 8, 0)
	if len(ds) != 3 {
		t.Fatalf("not in turn: %d", len(ds))
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	back := d.handedBack()
	if want := []string{ds[0].Run.Token, ds[2].Run.Token}; len(back) != 3 || !slices.Equal(back[:2], want) {
		t.Fatalf("%v", back)
	}
	if err := a.Close(); err != nil || len(d.handedBack()) > 0 {
		t.Fatal("handed back twice", err)
	}
	if err := a.Result(ds[0].ID, true, ""); !errors.Is(err, carillon.Canceled) {
		t.Fatal(err)
	}
	if _, err := a.Receive(ctx); !errors.Is(err, carillon.Canceled) {
		t.Fatal(err)
	}
	d.deliver(t, app, 10, 13, 0) // as the engine would what came back
	if ds := receive(t, b); len(ds) != 7 {
		t.Fatalf("%d went to the other", len(ds))
	}
	_ = b.Close()
	if st := offer(d.hub, 0, queueOf(app), 1, delivery.Head{}); st.Served || len(d.hub.Queues()) > 0 ||
		len(d.hub.Workers()) > 0 {
		t.Fatal("something is left behind")
	}
}

func TestNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeSink()
		deaf, other := d.open(t, Hello{Jobs: true}, Options{}), d.open(t, Hello{Jobs: true}, Options{})
		pass(time.Hour) // with nothing to receive it is no stall
		d.deliver(t, app, 0, 2, 0)
		receive(t, other)
		if len(d.hub.Workers()) != 2 {
			t.Fatal("dropped with nothing to read")
		}
		pass(stream.DefaultStall)
		synctest.Wait()
		if _, err := deaf.Receive(ctx); !errors.Is(err, carillon.ResourceExhausted) {
			t.Fatal(err)
		}
		if back := d.handedBack(); len(back) != 2 {
			t.Fatalf("%v", back) // the other did not come back either for more than a stall
		}
		if len(d.hub.Workers()) != 0 {
			t.Fatal("somebody is left")
		}
	})
}

// TestReadsAndWaits has a sidecar wait in Receive for as long as it likes with runs that take as long as they
// like.
func TestReadsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeSink()
		s := d.open(t, Hello{Jobs: true}, Options{})
		d.deliver(t, app, 0, 1, 0)
		receive(t, s)
		got := make(chan []Delivery)
		go func() {
			ds, _ := s.Receive(ctx)
			got <- ds
		}()
		pass(10 * stream.DefaultStall)
		d.deliver(t, app, 1, 2, 0)
		if ds := <-got; len(ds) != 1 || ds[0].ID != 2 {
			t.Fatalf("%+v", ds)
		}
		result(t, s, 1, true, "")
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := s.Receive(short); !errors.Is(err, carillon.DeadlineExceeded) {
			t.Fatal(err)
		}
		result(t, s, 2, true, "")
		_ = s.Close()
	})
}

// TestTooMuchUnread has more come at once than may wait: what is beyond goes back, and the rest is received.
// A sidecar that does not read keeps no more than that, and is dropped in its time.
func TestTooMuchUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeSink()
		s := d.open(t, Hello{Jobs: true}, Options{Bounds: stream.Bounds{PendingBytes: 10_000}})
		d.deliver(t, app, 0, 2, 8000)
		if n := offer(d.hub, 0, queueOf(app), 1, delivery.Head{}).N; n != 0 {
			t.Fatal("its credits are not held back")
		}
		receive(t, s)
		if d.slots != 1 {
			t.Fatal("its credits are still held back")
		}
		d.hub.Deliver(0, nil, []delivery.Rest{{Queue: queueOf(app), Unused: 1}})
		d.deliver(t, app, 2, 10, 8000)
		if back := d.handedBack(); !slices.Equal(back, tokens(5, 10)) {
			t.Fatalf("%v", back)
		}
		if st := d.hub.Queues()[0]; st.Credits != 0 || st.InFlight != 5 {
			t.Fatalf("%+v", st)
		}
		if ds := receive(t, s); len(ds) != 3 || ds[0].ID != 3 {
			t.Fatalf("%+v", ds)
		}
		d.deliver(t, app, 5, 10, 8000)
		pass(stream.DefaultStall)
		synctest.Wait()
		if err := s.Result(1, true, ""); !errors.Is(err, carillon.ResourceExhausted) {
			t.Fatal(err)
		}
		if back := d.handedBack(); len(back) != 10 {
			t.Fatalf("%v", back)
		}
	})
}

// TestHeldBackNoLonger has what was too much be cancelled before it is received: the session takes runs
// again.
func TestHeldBackNoLonger(t *testing.T) {
	d := newFakeSink()
	s := d.open(t, Hello{Jobs: true}, Options{Bounds: stream.Bounds{PendingBytes: 10_000}})
	defer s.Close()
	d.deliver(t, app, 0, 2, 8000)
	d.hub.Cancel([]delivery.Cancel{{Queue: queueOf(app), Token: token(0)}})
	if n := offer(d.hub, 0, queueOf(app), 1, delivery.Head{}).N; n != 1 {
		t.Fatal("its credits are held back although little waits")
	}
}

func TestCancel(t *testing.T) {
	d := newFakeSink()
	s := d.open(t, Hello{Jobs: true}, Options{Credits: 6})
	cancel := func(i int) { d.hub.Cancel([]delivery.Cancel{{Queue: queueOf(app), Token: token(i)}}) }
	d.deliver(t, app, 0, 2, 0)
	receive(t, s)
	d.deliver(t, app, 2, 6, 0)
	cancel(0)
	cancel(3)
	cancel(3)
	cancel(77)
	if st := d.hub.Queues()[0]; st.Credits != 1 || st.InFlight != 5 {
		t.Fatalf("what was never received goes, what was goes on: %+v", st)
	}
	if ds := receive(t, s); len(ds) != 3 || ds[0].Run.Token != token(2) ||
		ds[1].Run.Token != token(4) || ds[1].ID != 4 {
		t.Fatalf("%+v", ds)
	}
	result(t, s, 1, true, "")
	if len(d.reports) != 0 {
		t.Fatalf("a result of a cancelled run was told: %+v", d.reports)
	}
	if err := s.Result(1, true, ""); !errors.Is(err, carillon.InvalidArgument) {
		t.Fatal(err)
	}
	cancel(1)
	_ = s.Close()
	if back := d.handedBack(); !slices.Equal(back, []string{token(2), token(4), token(5)}) {
		t.Fatalf("%v", back)
	}
}

// TestSameTokenAgain delivers an attempt a second time that is still here: only the newer counts.
func TestSameTokenAgain(t *testing.T) {
	d := newFakeSink()
	s := d.open(t, Hello{Jobs: true}, Options{Credits: 5})
	d.deliver(t, app, 0, 1, 0)
	receive(t, s)
	d.deliver(t, app, 0, 2, 0)
	d.deliver(t, app, 0, 2, 0)
	if st := d.hub.Queues()[0]; st.Credits != 2 || st.InFlight != 3 {
		t.Fatalf("%+v", st)
	}
	if ds := receive(t, s); len(ds) != 2 {
		t.Fatalf("%+v", ds)
	}
	result(t, s, 1, true, "")
	result(t, s, 2, true, "")
	if len(d.reports) != 1 || d.reports[0].Token != token(0) {
		t.Fatalf("%+v", d.reports)
	}
	_ = s.Close()
	if back := d.handedBack(); !slices.Equal(back, []string{token(1)}) {
		t.Fatalf("%v", back)
	}
}

func TestDrain(t *testing.T) {
	d := newFakeSink()
	s, idle := d.open(t, Hello{Jobs: true}, Options{}), d.open(t, Hello{ActorTypes: []string{"a"}}, Options{})
	d.deliver(t, app, 0, 3, 0)
	receive(t, s)
	d.deliver(t, app, 3, 5, 0)
	d.hub.Cancel([]delivery.Cancel{{Queue: queueOf(app), Token: token(2)}})
	if err := d.hub.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := idle.Receive(ctx); !errors.Is(err, carillon.Unavailable) {
		t.Fatal(err)
	}
	if back := d.handedBack(); !slices.Equal(back, tokens(3, 5)) {
		t.Fatalf("%v", back)
	}
	result(t, s, 1, true, "")
	result(t, s, 2, false, "")
	if _, err := s.Receive(ctx); !errors.Is(err, carillon.Unavailable) || len(d.reports) != 2 {
		t.Fatalf("%v, %+v", err, d.reports)
	}
	if len(d.handedBack()) > 0 || len(d.hub.Workers()) > 0 {
		t.Fatal("something is left behind")
	}
	if _, err := Open(d.hub, &d.limits, Hello{Namespace: "n", AppID: "app"},
		Options{}); !errors.Is(err, carillon.Unavailable) {
		t.Fatal(err)
	}
}

func TestDrainAndClose(t *testing.T) {
	d := newFakeSink()
	s := d.open(t, Hello{Jobs: true}, Options{})
	d.deliver(t, app, 0, 2, 0)
	receive(t, s)
	if err := errors.Join(d.hub.Drain(ctx), d.hub.Drain(ctx)); err != nil || len(d.handedBack()) > 0 {
		t.Fatal(err, "what was received is waited for")
	}
	if err := d.hub.Close(); err != nil {
		t.Fatal(err)
	}
	if back := d.handedBack(); !slices.Equal(back, tokens(0, 2)) {
		t.Fatalf("%v", back)
	}
}

// BenchmarkRuns takes 20,000 runs that are due at once through one stream, in rounds of 512, and answers
// them; figures are of one run.
func BenchmarkRuns(b *testing.B) {
	const n, round = 20_000, 512
	d := newFakeSink()
	s := d.open(b, Hello{Jobs: true}, Options{})
	defer s.Close()
	ds := runs(app, 0, n, 100)
	b.ReportAllocs()
	for done := 0; done < b.N; done += n {
		for i := 0; i < n; i += round {
			d.hub.Deliver(0, ds[i:min(i+round, n)], nil)
		}
		for got := 0; got < n; {
			for _, r := range receive(b, s) {
				result(b, s, r.ID, true, "")
				got++
			}
		}
		d.reports = d.reports[:0]
	}
}

// TestHoldTellsWhenNothingIsInHand: at once if nothing is, when the sidecar has answered, when what it has is
// cancelled, and when its stream ends.
func TestHoldTellsWhenNothingIsInHand(t *testing.T) {
	d := newFakeSink()
	s := d.open(t, Hello{Jobs: true}, Options{})
	settled := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	if !settled(s.Hold()) {
		t.Error("nothing is in hand")
	}
	for what, end := range map[string]func(id uint64, i int){
		"answered":  func(id uint64, _ int) { result(t, s, id, true, "") },
		"cancelled": func(_ uint64, i int) { s.Cancel(token(i)) },
		"ended":     func(uint64, int) { _ = s.Close() },
	} {
		s = d.open(t, Hello{Jobs: true}, Options{})
		d.deliver(t, app, 0, 2, 0)
		got := receive(t, s)
		first, second := s.Hold(), s.Hold()
		end(got[0].ID, 0)
		if what != "ended" && (settled(first) || settled(second)) {
			t.Errorf("%s: one is still in hand", what)
		}
		end(got[1].ID, 1)
		if !settled(first) || !settled(second) {
			t.Errorf("%s: nothing is in hand any more", what)
		}
		_ = s.Close()
	}
}

// TestAPausedQueueHandsBackWhatIsUnreceived: of an actor type, while the sidecar's app goes on.
func TestAPausedQueueHandsBackWhatIsUnreceived(t *testing.T) {
	d := newFakeSink()
	s := d.open(t, Hello{Jobs: true, ActorTypes: []string{"cat"}}, Options{})
	defer s.Close()
	cat := &carillon.DaprTarget{AppID: "other", ActorType: "cat", ActorID: "tom"}
	d.deliver(t, cat, 0, 1, 0)
	receive(t, s)
	d.deliver(t, cat, 1, 3, 0)
	d.deliver(t, app, 3, 4, 0)
	d.hub.SetPaused([]delivery.Queue{queueOf(cat)})
	if got := d.handedBack(); !slices.Equal(got, []string{token(1), token(2)}) {
		t.Errorf("handed back %v", got)
	}
	if ds := receive(t, s); len(ds) != 1 || ds[0].Run.Token != token(3) {
		t.Errorf("received %+v", ds)
	}
	result(t, s, 1, true, "")
}
