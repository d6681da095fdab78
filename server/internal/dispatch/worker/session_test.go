package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/stream"
	"github.com/carillonhq/carillon/server/store"
)

// TestARunIsNotGivenWithoutItsPayload: a worker that does not read payloads gets no run that refers to one. The
// run is put off, without a failure, and the credit stays for others.
func TestARunIsNotGivenWithoutItsPayload(t *testing.T) {
	for _, reads := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := newFakeSink(Options{})
			s, err := d.hub.Connect(ctx, carillon.Hello{Queues: []string{"q"}, WorkerID: "w", Payloads: reads})
			if err != nil {
				t.Fatal(err)
			}
			send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 2}}})
			if n, _ := d.take(0, queue, 2, delivery.Head{}); n != 2 {
				t.Fatal(n)
			}
			apart := carillon.Run{ID: "a", Token: token(0), Data: carillon.Data{Ref: &carillon.PayloadRef{Size: 1}}}
			d.hub.Deliver(0, []delivery.Delivery{{Queue: queue, Run: &apart},
				{Queue: queue, Run: &carillon.Run{ID: "b", Token: token(1)}}}, nil)
			synctest.Wait()
			got := tokens(receive(t, s).Runs)
			if reads {
				if len(got) != 2 || len(d.reports) != 0 {
					t.Errorf("one that reads them: %v, %+v", got, d.reports)
				}
			} else if !slices.Equal(got, []string{token(1)}) || len(d.reports) != 1 || d.hub.Queues()[0].Credits != 1 {
				t.Errorf("one that does not: %v, %+v", got, d.reports)
			} else if r := d.reports[0]; r.Outcome != carillon.OutcomeReschedule || r.Token != token(0) || r.RunID != "a" ||
				!r.At.After(time.Now()) || !strings.Contains(r.Message, "hello.payloads") {
				t.Errorf("%+v", r)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCloseLeavesRunsToTheirLease(t *testing.T) {
	d := newFakeSink(Options{})
	s := d.connect(t, 4)
	d.deliver(t, 0, 2, 0)
	receive(t, s)
	d.deliver(t, 2, 4, 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(d.lost) != 0 || !slices.Equal(d.undelivered, []string{token(2), token(3)}) {
		t.Fatalf("lost %v, undelivered %v", d.lost, d.undelivered)
	}
	if _, err := s.Receive(ctx); !errors.Is(err, carillon.Canceled) {
		t.Fatal(err)
	}
	if err := s.Send(ctx, carillon.WorkRequest{}); !errors.Is(err, carillon.Canceled) {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil || len(d.hub.Queues()) != 0 || len(d.hub.Workers()) != 0 {
		t.Fatal("something is left behind", err)
	}
}

func TestGoodbye(t *testing.T) {
	d := newFakeSink(Options{})
	s := d.connect(t, 9)
	d.deliver(t, 0, 3, 0)
	receive(t, s)
	d.deliver(t, 3, 4, 0)
	send(t, s, carillon.WorkRequest{Goodbye: true, Results: []carillon.Result{{Token: token(1)}}})
	if !slices.Equal(d.lost, []string{token(0), token(2)}) || !slices.Equal(d.undelivered, []string{token(3)}) {
		t.Fatalf("lost %v, undelivered %v", d.lost, d.undelivered)
	}
	if n, ok := d.take(0, queue, 1, delivery.Head{}); n != 0 || ok {
		t.Fatal("who has gone is still served")
	}
	d.reports[0].From.Accepted(token(1))
	if r := receive(t, s); !slices.Equal(r.Acks, []string{token(1)}) {
		t.Fatalf("%+v", r)
	}
	if err := s.Send(ctx, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q",
		N: 1}}}); !errors.Is(err, carillon.FailedPrecondition) {
		t.Fatal(err)
	}
	send(t, s, carillon.WorkRequest{Goodbye: true, Heartbeats: []carillon.Heartbeat{{Token: "x"}}})
	_ = s.Close()
	if len(d.lost) != 2 || len(d.undelivered) != 1 {
		t.Fatal("told twice")
	}
}

func TestCancelBeforeReceive(t *testing.T) {
	d := newFakeSink(Options{})
	s := d.connect(t, 2)
	d.deliver(t, 0, 2, 0)
	d.hub.Cancel([]delivery.Cancel{{Queue: queue, Token: token(0)}})
	if r := receive(t, s); !slices.Equal(tokens(r.Runs), []string{token(1)}) || r.Cancel != nil {
		t.Fatalf("%+v", r)
	}
	if q := d.hub.Queues()[0]; q.Credits != 1 || q.InFlight != 1 {
		t.Fatalf("the credit is lost: %+v", q)
	}
	d.deliver(t, 2, 3, 0)
	d.hub.Cancel([]delivery.Cancel{{Queue: queue, Token: token(2)}})
	_ = s.Close()
	if len(d.undelivered) != 0 {
		t.Fatalf("undelivered %v", d.undelivered)
	}
}

func TestDrain(t *testing.T) {
	d := newFakeSink(Options{})
	s := d.connect(t, 1)
	if err := d.hub.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if r := receive(t, s); !r.Drain {
		t.Fatalf("%+v", r)
	}
	send(t, s, carillon.WorkRequest{Results: []carillon.Result{{Token: "late"}}})
	if len(d.reports) != 1 {
		t.Fatal("a leaving node takes no results")
	}
	if _, err := d.hub.Connect(ctx, carillon.Hello{Queues: []string{"q"}}); !errors.Is(err, carillon.Unavailable) {
		t.Fatal(err)
	}
	if err := d.hub.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Receive(ctx); err == nil {
		t.Fatal("the session outlives its node")
	}
}

func TestReceiveWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeSink(Options{})
		s := d.connect(t, 1)
		var got carillon.WorkResponse
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { got, err = s.Receive(ctx) })
		synctest.Wait()
		d.deliver(t, 0, 1, 0)
		wg.Wait()
		if err != nil || len(got.Runs) != 1 {
			t.Fatal(got, err)
		}
		wg.Go(func() { _, err = s.Receive(ctx) })
		synctest.Wait()
		_ = s.Close()
		wg.Wait()
		if !errors.Is(err, carillon.Canceled) {
			t.Fatal(err)
		}
	})
}

func TestStalledIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeSink(Options{})
		stalled, well := d.connect(t, 1), d.connect(t, 1)
		d.deliver(t, 0, 2, 0)
		pass(stream.DefaultStall - 1)
		receive(t, well)
		if len(d.hub.Workers()) != 2 {
			t.Fatal("dropped too early")
		}
		pass(1)
		synctest.Wait()
		if len(d.hub.Workers()) != 1 || len(d.undelivered) != 1 {
			t.Fatalf("%d workers, undelivered %v", len(d.hub.Workers()), d.undelivered)
		}
		if _, err := stalled.Receive(ctx); !errors.Is(err, carillon.ResourceExhausted) {
			t.Fatal(err)
		}
		pass(10 * stream.DefaultStall)
		if len(d.hub.Workers()) != 1 {
			t.Fatal("an idle session was dropped")
		}
		well.(*Session).Accepted(token(1))
		pass(stream.DefaultStall)
		synctest.Wait()
		if len(d.hub.Workers()) != 0 {
			t.Fatal("it received once and may stall for ever")
		}
	})
}

// TestFullIsHeldBack tells that a slow worker's credits wait while too much is unreceived, and come back.
func TestFullIsHeldBack(t *testing.T) {
	d := newFakeSink(Options{Bounds: stream.Bounds{PendingBytes: 10_000, MessageBytes: 6000}})
	s := d.connect(t, 100)
	d.deliver(t, 0, 3, 4000)
	if n, ok := d.take(1, queue, 1, delivery.Head{}); n != 0 || !ok {
		t.Fatalf("took %d %v", n, ok)
	}
	d.hub.Forget(1)
	receive(t, s)
	if n, _ := d.take(1, queue, 1, delivery.Head{}); n != 1 {
		t.Fatal("the credits did not come back")
	}
}

func TestOverfullIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeSink(Options{Bounds: stream.Bounds{PendingBytes: 1000}})
		s := d.connect(t, 1)
		for i := range 100 {
			s.(*Session).Accepted(token(i))
		}
		synctest.Wait()
		acks, bytes := 0, 0
		msg, err := s.Receive(ctx)
		for ; err == nil; msg, err = s.Receive(ctx) { // what was said before the end still comes
			for _, a := range msg.Acks {
				if a != token(acks) {
					t.Fatalf("%s came as number %d", a, acks)
				}
				acks, bytes = acks+1, bytes+len(a)+stream.Overhead
			}
		}
		if !errors.Is(err, carillon.ResourceExhausted) || bytes <= 2000 || len(d.hub.Workers()) != 0 {
			t.Fatal(err, acks, bytes)
		}
	})
}

// TestRace lets sessions come and go while runs are delivered, cancelled and reported: each delivery is
// received, cancelled or handed back, none twice.
func TestRace(t *testing.T) {
	d := newFakeSink(Options{})
	atOnce, cancel := context.WithCancel(ctx)
	cancel()
	const sessions, runs = 4, 500
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	stop := make(chan struct{})
	for range sessions {
		wg.Go(func() {
			for {
				s, err := d.hub.Connect(ctx, carillon.Hello{Queues: []string{"q"}})
				if err != nil {
					return
				}
				for range 20 {
					select {
					case <-stop:
						_ = s.Close()
						return
					default:
					}
					_ = s.Send(ctx, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 5}}})
					msg, _ := s.Receive(atOnce)
					var results []carillon.Result
					mu.Lock()
					for _, token := range tokens(msg.Runs) {
						seen[token]++
						results = append(results, carillon.Result{Token: token})
					}
					mu.Unlock()
					_ = s.Send(ctx, carillon.WorkRequest{Results: results})
				}
				_ = s.Close()
			}
		})
	}
	for i := 0; i < runs; {
		n, _ := d.take(0, queue, min(10, runs-i), delivery.Head{})
		var ds []delivery.Delivery
		for range n {
			ds = append(ds, delivery.Delivery{Queue: queue,
				Run: &carillon.Run{ID: store.RunID{}.String(), Token: token(i)}})
			i++
		}
		// Slots that came meanwhile, because it waits, go back: this partition does not keep account of them.
		d.hub.Deliver(0, ds, []delivery.Rest{{Queue: queue, Unused: runs}})
	}
	close(stop)
	wg.Wait()
	for _, token := range d.undelivered {
		seen[token]++
	}
	for i := range runs {
		if seen[token(i)] != 1 {
			t.Fatalf("%s was seen %d times", token(i), seen[token(i)])
		}
	}
}

// BenchmarkSession measures delivery and result of small runs through the hub and one session, 256 at a time.
func BenchmarkSession(b *testing.B) {
	d := &acceptingSink{}
	d.hub = dispatch.New(d, dispatch.Options{Accept: Accept(Options{})})
	s, err := d.hub.Connect(ctx, carillon.Hello{Queues: []string{"q"}})
	if err != nil {
		b.Fatal(err)
	}
	const batch = 256
	ds := make([]delivery.Delivery, batch)
	results := make([]carillon.Result, batch)
	for i := range ds {
		id := store.RunID{Seq: uint64(i)}.String()
		ds[i] = delivery.Delivery{Queue: queue,
			Run: &carillon.Run{ID: id, Token: strings.Repeat("t", 100) + token(i)}}
		results[i] = carillon.Result{Token: ds[i].Run.Token, RunID: id, Outcome: carillon.OutcomeSuccess}
	}
	b.ReportAllocs()
	for n := 0; n < b.N; n += batch {
		send(b, s, carillon.WorkRequest{Results: results, Credits: []carillon.Credit{{Queue: "q", N: batch}}})
		offer(d.hub, 0, queue, batch, delivery.Head{})
		d.hub.Deliver(0, ds, nil)
		receive(b, s)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}

// TestARunWhoseLeaseHasEndedDoesNotLeave: as after a halt of the process. It is handed back, and its credit
// is there for another.
func TestARunWhoseLeaseHasEndedDoesNotLeave(t *testing.T) {
	now := time.Now()
	d := &fakeSink{}
	d.hub = dispatch.New(d, dispatch.Options{Accept: Accept(Options{}), Now: func() time.Time { return now }})
	s := d.connect(t, 3)
	run := func(i int, lease time.Duration) delivery.Delivery {
		return delivery.Delivery{Queue: queue, Run: &carillon.Run{Token: token(i), Started: now, Lease: lease}}
	}
	if n, _ := d.take(0, queue, 3, delivery.Head{}); n != 3 {
		t.Fatalf("took %d", n)
	}
	d.hub.Deliver(0, []delivery.Delivery{run(0, time.Second), run(1, time.Minute), run(2, time.Second)}, nil)
	now = now.Add(2 * time.Second)
	if r := receive(t, s); !slices.Equal(tokens(r.Runs), []string{token(1)}) {
		t.Errorf("received %v", tokens(r.Runs))
	}
	if !slices.Equal(d.undelivered, []string{token(0), token(2)}) {
		t.Errorf("handed back %v", d.undelivered)
	}
	if w := d.hub.Workers(); w[0].InFlight != 1 {
		t.Errorf("%d are in flight", w[0].InFlight)
	}
	d.deliver(t, 3, 5, 0)
	if r := receive(t, s); len(r.Runs) != 2 {
		t.Errorf("the credits are gone: %+v", r)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestASlotForEachAttemptNotEachDelivery of the same token to the same session, received or not.
func TestASlotForEachAttemptNotEachDelivery(t *testing.T) {
	for _, received := range []bool{true, false} {
		t.Run(fmt.Sprintf("received %v", received), func(t *testing.T) {
			d := newFakeSink(Options{})
			s := d.connect(t, 3)
			d.deliver(t, 0, 1, 0)
			left := 2 // the worker has used one for what it has received
			if received {
				receive(t, s)
				left = 1
			}
			d.deliver(t, 0, 1, 0)
			d.checkSlots(t, 1, left)
			if r := receive(t, s); !slices.Equal(tokens(r.Runs), []string{token(0)}) {
				t.Errorf("once is wanted: %+v", r.Runs)
			}
			send(t, s, carillon.WorkRequest{Results: []carillon.Result{{Token: token(0), Outcome: carillon.OutcomeSuccess}}})
			d.checkSlots(t, 0, left)
		})
	}
}

// TestAnAnswerStopsTheSecondDelivery of its token, which the worker has not received.
func TestAnAnswerStopsTheSecondDelivery(t *testing.T) {
	for name, answer := range map[string]func(s *Session){
		"a result": func(s *Session) {
			send(t, s, carillon.WorkRequest{Results: []carillon.Result{{Token: token(0), Outcome: carillon.OutcomeSuccess}}})
		},
		"stale":  func(s *Session) { s.Stale(token(0)) },
		"cancel": func(s *Session) { s.Cancel(token(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newFakeSink(Options{})
			s := d.connect(t, 3)
			d.deliver(t, 0, 1, 0)
			receive(t, s)
			d.deliver(t, 0, 1, 0)
			d.checkSlots(t, 1, 1)
			answer(s.(*Session))
			d.checkSlots(t, 0, 2)
			d.hub.Cancel([]delivery.Cancel{{Queue: queue, Token: token(0)}})
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if len(d.undelivered) > 0 {
				t.Errorf("%v came back, which the worker has answered", d.undelivered)
			}
		})
	}
}

// TestAPausedQueueHandsBackWhatIsUnreceived: a worker gets nothing more of it, and what it has goes on.
func TestAPausedQueueHandsBackWhatIsUnreceived(t *testing.T) {
	d := newFakeSink(Options{})
	s := d.connect(t, 5)
	defer s.Close()
	d.deliver(t, 0, 1, 0)
	receive(t, s)
	d.deliver(t, 1, 3, 0)
	d.hub.SetPaused([]delivery.Queue{queue})
	if want := []string{token(1), token(2)}; !slices.Equal(d.undelivered, want) {
		t.Errorf("handed back %v, not %v", d.undelivered, want)
	}
	d.checkSlots(t, 1, 4)
	send(t, s, carillon.WorkRequest{Results: []carillon.Result{{Token: token(0), Outcome: carillon.OutcomeSuccess}}})
	if len(d.reports) != 1 {
		t.Errorf("%d results are taken", len(d.reports))
	}
}
