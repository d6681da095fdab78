package worker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/dispatch"
	"github.com/carillonhq/carillon/internal/dispatch/stream"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/internal/partition"
)

// fakeSink is an engine of one partition that delivers what it is told to and remembers what it hears.
type fakeSink struct {
	hub *dispatch.Hub

	mu          sync.Mutex
	reports     []partition.Report
	heartbeats  []carillon.Heartbeat
	from        partition.Reporter
	lost        []string
	undelivered []string
}

func (d *fakeSink) Reports(rs []partition.Report) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reports = append(d.reports, rs...)
}

func (d *fakeSink) Heartbeats(bs []carillon.Heartbeat, from partition.Reporter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heartbeats, d.from = append(d.heartbeats, bs...), from
}

func (d *fakeSink) Room(int, partition.Queue) {}
func (d *fakeSink) Consumers(partition.Queue) {}

func (d *fakeSink) Lost(tokens []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = append(d.lost, tokens...)
}

func (d *fakeSink) Undelivered(tokens []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.undelivered = append(d.undelivered, tokens...)
}

func newFakeSink(o Options) *fakeSink {
	d := &fakeSink{}
	d.hub = dispatch.New(d, dispatch.Options{Accept: Accept(o)})
	return d
}

var ctx = context.Background()

// connect opens a session for queue q with n credits.
func (d *fakeSink) connect(t testing.TB, n int) carillon.Session {
	t.Helper()
	s, err := d.hub.Connect(ctx, carillon.Hello{Queues: []string{"q"}, WorkerID: "w"})
	if err != nil {
		t.Fatal(err)
	}
	send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: n}}})
	return s
}

func send(t testing.TB, s carillon.Session, r carillon.WorkRequest) {
	t.Helper()
	if err := s.Send(ctx, r); err != nil {
		t.Fatal(err)
	}
}

func receive(t testing.TB, s carillon.Session) carillon.WorkResponse {
	t.Helper()
	r, err := s.Receive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var queue = partition.Queue{Namespace: "default", Kind: "worker", Address: "q"}

func token(i int) string { return fmt.Sprintf("token-%03d", i) }

// deliver takes slots for runs [from, to) and uses them.
func (d *fakeSink) deliver(t testing.TB, from, to, payload int) {
	t.Helper()
	n, _ := d.take(0, queue, to-from, partition.Head{})
	if n != to-from {
		t.Fatalf("took %d of %d", n, to-from)
	}
	var ds []partition.Delivery
	for i := from; i < to; i++ {
		id := identity.Run{Seq: uint64(i)}.String()
		ds = append(ds, partition.Delivery{Queue: queue, Run: &carillon.Run{ID: id, Token: token(i),
			Data: carillon.Bytes(make([]byte, payload), ""), Metadata: map[string]string{"k": "v"}}})
	}
	d.hub.Deliver(ds)
}

func tokens(runs []carillon.Run) []string {
	var ts []string
	for i := range runs {
		ts = append(ts, runs[i].Token)
	}
	return ts
}

func TestRunsAndResults(t *testing.T) {
	d := newFakeSink(Options{})
	s := d.connect(t, 3)
	d.deliver(t, 0, 1, 0)
	d.deliver(t, 1, 3, 0)
	if r := receive(t, s); !slices.Equal(tokens(r.Runs), []string{token(0), token(1), token(2)}) {
		t.Fatalf("not one message: %+v", r)
	}
	results := []carillon.Result{{Token: token(0), Outcome: carillon.OutcomeSuccess}, {Token: "another session's"}}
	send(t, s, carillon.WorkRequest{Results: results})
	if len(d.reports) != 2 || d.reports[0].Worker != "w" || d.reports[1].Token != "another session's" {
		t.Fatalf("%+v", d.reports)
	}
	d.reports[0].From.Accepted(token(0))
	d.reports[1].From.Stale("another session's")
	want := carillon.WorkResponse{Acks: []string{token(0)}, Stale: []string{"another session's"}}
	if r := receive(t, s); !reflect.DeepEqual(r, want) {
		t.Fatalf("%+v", r)
	}
	if w := d.hub.Workers(); len(w) != 1 || w[0].InFlight != 2 || w[0].Namespace != "default" {
		t.Fatalf("%+v", w)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	d := newFakeSink(Options{Bounds: stream.Bounds{MessageBytes: 1000, MessageItems: 3}})
	s := d.connect(t, 20)
	d.deliver(t, 0, 4, 0)    // four small: by items
	d.deliver(t, 4, 5, 5000) // larger than a message
	d.deliver(t, 5, 7, 600)  // two: by bytes
	for _, n := range []int{3, 1, 1, 1, 1} {
		if r := receive(t, s); len(r.Runs) != n {
			t.Fatalf("%d runs, not %d", len(r.Runs), n)
		}
	}
	for i := range 4 {
		d.hub.Cancel([]partition.Cancel{{Queue: queue, Token: token(i)}})
	}
	d.deliver(t, 7, 8, 0)
	for _, want := range []carillon.WorkResponse{{Cancel: []string{token(0), token(1), token(2)}}, {Cancel: []string{token(3)}}} {
		r := receive(t, s)
		if !slices.Equal(r.Cancel, want.Cancel) {
			t.Fatalf("%v", r)
		}
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

// TestReconnect goes on with a token in another session: it can report it, and is told to stop it.
func TestReconnect(t *testing.T) {
	d := newFakeSink(Options{})
	s := d.connect(t, 2)
	d.deliver(t, 0, 2, 0)
	receive(t, s)
	_ = s.Close()
	s = d.connect(t, 0)
	send(t, s, carillon.WorkRequest{Heartbeats: []carillon.Heartbeat{{Token: token(0)}, {Token: token(1)}}})
	if len(d.heartbeats) != 2 {
		t.Fatalf("%v", d.heartbeats)
	}
	d.from.Stale(token(1))
	other := d.connect(t, 0)
	send(t, other, carillon.WorkRequest{Heartbeats: []carillon.Heartbeat{{Token: token(0)}}})
	d.hub.Cancel([]partition.Cancel{{Queue: queue, Token: token(0)}, {Queue: queue, Token: token(1)}})
	if r := receive(t, s); !slices.Equal(r.Cancel, []string{token(0)}) || !slices.Equal(r.Stale, []string{token(1)}) {
		t.Fatalf("%+v", r)
	}
	if r := receive(t, other); !slices.Equal(r.Cancel, []string{token(0)}) {
		t.Fatalf("only one of two holders was told: %+v", r)
	}
	if got := s.(*Session); len(got.adopted) != 0 || !got.stream.HoldsNone() {
		t.Fatalf("%d adopted", len(got.adopted))
	}
}

// TestABeatBesideAResult is not passed on: it might be heard after the attempt has ended, and be answered as
// stale.
func TestABeatBesideAResult(t *testing.T) {
	d := newFakeSink(Options{})
	s := d.connect(t, 2)
	d.deliver(t, 0, 2, 0)
	receive(t, s)
	send(t, s, carillon.WorkRequest{
		Heartbeats: []carillon.Heartbeat{{Token: token(0)}, {Token: token(1)}},
		Results:    []carillon.Result{{Token: token(0), Outcome: carillon.OutcomeSuccess}, {Token: token(1), Outcome: carillon.OutcomeProgress}},
	})
	if len(d.heartbeats) != 1 || d.heartbeats[0].Token != token(1) || len(d.reports) != 2 {
		t.Errorf("beats %v, %d reports", d.heartbeats, len(d.reports))
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
	if n, ok := d.take(0, queue, 1, partition.Head{}); n != 0 || ok {
		t.Fatal("who has gone is still served")
	}
	d.reports[0].From.Accepted(token(1))
	if r := receive(t, s); !slices.Equal(r.Acks, []string{token(1)}) {
		t.Fatalf("%+v", r)
	}
	if err := s.Send(ctx, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 1}}}); !errors.Is(err, carillon.FailedPrecondition) {
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
	d.hub.Cancel([]partition.Cancel{{Queue: queue, Token: token(0)}})
	if r := receive(t, s); !slices.Equal(tokens(r.Runs), []string{token(1)}) || r.Cancel != nil {
		t.Fatalf("%+v", r)
	}
	if q := d.hub.Queues()[0]; q.Credits != 1 || q.InFlight != 1 {
		t.Fatalf("the credit is lost: %+v", q)
	}
	d.deliver(t, 2, 3, 0)
	d.hub.Cancel([]partition.Cancel{{Queue: queue, Token: token(2)}})
	_ = s.Close()
	if len(d.undelivered) != 0 {
		t.Fatalf("undelivered %v", d.undelivered)
	}
}

// TestNothingButCancelled has only cancelled runs waiting: that is no message.
func TestNothingButCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeSink(Options{})
		s := d.connect(t, 1)
		d.deliver(t, 0, 1, 0)
		d.hub.Cancel([]partition.Cancel{{Queue: queue, Token: token(0)}})
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if r, err := s.Receive(short); !errors.Is(err, carillon.DeadlineExceeded) {
			t.Fatal(r, err)
		}
		pass(2 * stream.DefaultStall)
		if len(d.hub.Workers()) != 1 {
			t.Fatal("dropped for leaving nothing unreceived")
		}
	})
}

func TestCreditsRefused(t *testing.T) {
	d := newFakeSink(Options{MaxCredits: 10})
	s := d.connect(t, 8)
	d.deliver(t, 0, 5, 0)
	for _, c := range []struct {
		credit carillon.Credit
		kind   carillon.Kind
		field  string
	}{
		{carillon.Credit{Queue: "q", N: 3}, carillon.ResourceExhausted, "credits.n"},
		{carillon.Credit{Queue: "q", N: 1<<63 - 1}, carillon.ResourceExhausted, "credits.n"},
		{carillon.Credit{Queue: "other", N: 1}, carillon.InvalidArgument, "credits.queue"},
	} {
		err := s.Send(ctx, carillon.WorkRequest{Credits: []carillon.Credit{c.credit}, Results: []carillon.Result{{Token: "r"}}})
		e, ok := errors.AsType[*carillon.Error](err)
		if !ok || e.Kind != c.kind || e.Field != c.field {
			t.Errorf("%+v: %v", c.credit, err)
		}
	}
	if len(d.reports) != 3 {
		t.Errorf("%d results of refused messages were taken", len(d.reports))
	}
	send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 2}, {Queue: "q"}}})
}

func TestHello(t *testing.T) {
	d := newFakeSink(Options{})
	for field, h := range map[string]carillon.Hello{
		"queues":    {},
		"queues ":   {Queues: []string{""}},
		"queues  ":  {Queues: []string{"a", "b", "a"}},
		"queues   ": {Queues: make([]string, MaxQueues+1)},
		"namespace": {Namespace: "No!", Queues: []string{"q"}},
		"worker_id": {Queues: []string{"q"}, WorkerID: strings.Repeat("w", MaxWorkerID+1)},
		"labels":    {Queues: []string{"q"}, Labels: map[string]string{"k": strings.Repeat("v", MaxLabelsBytes)}},
	} {
		_, err := d.hub.Connect(ctx, h)
		e, ok := errors.AsType[*carillon.Error](err)
		if !ok || e.Kind != carillon.InvalidArgument || e.Field != strings.TrimSpace(field) {
			t.Errorf("%q: %v", field, err)
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := d.hub.Connect(gone, carillon.Hello{Queues: []string{"q"}}); !errors.Is(err, carillon.Canceled) {
		t.Error(err)
	}
	if _, err := d.hub.Connect(ctx, carillon.Hello{Queues: []string{"q"}}); err != nil {
		t.Fatal(err)
	}
	if w := d.hub.Workers(); len(w) != 1 || len(w[0].ID) < 10 {
		t.Errorf("%+v", w)
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
	if n, ok := d.take(1, queue, 1, partition.Head{}); n != 0 || !ok {
		t.Fatalf("took %d %v", n, ok)
	}
	d.hub.Forget(1)
	receive(t, s)
	if n, _ := d.take(1, queue, 1, partition.Head{}); n != 1 {
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
		acks := 0
		msg, err := s.Receive(ctx)
		for ; err == nil; msg, err = s.Receive(ctx) { // what was said before the end still comes
			acks += len(msg.Acks)
		}
		if !errors.Is(err, carillon.ResourceExhausted) || acks != 100 || len(d.hub.Workers()) != 0 {
			t.Fatal(err, acks)
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
		n, _ := d.take(0, queue, min(10, runs-i), partition.Head{})
		var ds []partition.Delivery
		for range n {
			ds = append(ds, partition.Delivery{Queue: queue, Run: &carillon.Run{ID: identity.Run{}.String(), Token: token(i)}})
			i++
		}
		d.hub.Deliver(ds)
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
	d := &sinkhole{}
	d.hub = dispatch.New(d, dispatch.Options{Accept: Accept(Options{})})
	s, err := d.hub.Connect(ctx, carillon.Hello{Queues: []string{"q"}})
	if err != nil {
		b.Fatal(err)
	}
	const batch = 256
	ds := make([]partition.Delivery, batch)
	results := make([]carillon.Result, batch)
	for i := range ds {
		id := identity.Run{Seq: uint64(i)}.String()
		ds[i] = partition.Delivery{Queue: queue, Run: &carillon.Run{ID: id, Token: strings.Repeat("t", 100) + token(i)}}
		results[i] = carillon.Result{Token: ds[i].Run.Token, RunID: id, Outcome: carillon.OutcomeSuccess}
	}
	b.ReportAllocs()
	for n := 0; n < b.N; n += batch {
		send(b, s, carillon.WorkRequest{Results: results, Credits: []carillon.Credit{{Queue: "q", N: batch}}})
		d.hub.Take(0, queue, batch, partition.Head{})
		d.hub.Deliver(ds)
		receive(b, s)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}

// sinkhole is a sink that accepts all.
type sinkhole struct{ fakeSink }

func (*sinkhole) Reports(rs []partition.Report) {
	for i := range rs {
		rs[i].From.Accepted(rs[i].Token)
	}
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// take takes slots as a partition does.
func (d *fakeSink) take(p int, q partition.Queue, want int, head partition.Head) (n int, consumers bool) {
	s := d.hub.Take(p, q, want, head)
	return s.N, s.Served
}

// TestARunWhoseLeaseHasEndedDoesNotLeave: as after a halt of the process. It is handed back, and its credit
// is there for another.
func TestARunWhoseLeaseHasEndedDoesNotLeave(t *testing.T) {
	now := time.Now()
	d := &fakeSink{}
	d.hub = dispatch.New(d, dispatch.Options{Accept: Accept(Options{}), Now: func() time.Time { return now }})
	s := d.connect(t, 3)
	run := func(i int, lease time.Duration) partition.Delivery {
		return partition.Delivery{Queue: queue, Run: &carillon.Run{Token: token(i), Started: now, Lease: lease}}
	}
	if n, _ := d.take(0, queue, 3, partition.Head{}); n != 3 {
		t.Fatalf("took %d", n)
	}
	d.hub.Deliver([]partition.Delivery{run(0, time.Second), run(1, time.Minute), run(2, time.Second)})
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
