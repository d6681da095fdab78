package dispatch

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestStatsOfQueuesAndWorkers(t *testing.T) {
	now := time.Unix(1000, 0)
	h, _ := hub(Options{Now: func() time.Time { return now }})
	b, a := join(t, h, "b"), join(t, h, "a", "b")
	b.registration.Subscriptions[0].Grant(3)
	take(h, 1, named("b"), 2, delivery.Head{})
	take(h, 1, named("a"), 2, delivery.Head{})
	h.Deliver(1, runsOf(1, named("b"), 1, 2), nil)
	a.registration.Silence(func() bool { return true })
	want := []QueueStats{
		{Queue: named("a"), Consumers: 1, Silent: 1},
		{Queue: named("b"), Consumers: 2, Silent: 1, Credits: 1, InFlight: 2},
	}
	if got := h.Queues(); !slices.Equal(got, want) {
		t.Errorf("queues %+v", got)
	}
	all := h.Workers()
	if len(all) != 2 || !slices.Equal(all[1].Queues, []string{"a", "b"}) || all[0].InFlight != 2 ||
		!all[0].Since.Equal(now) {
		t.Errorf("workers %+v", all)
	}
}

func TestStatsSayWhenAWorkerWasSeen(t *testing.T) {
	now := time.Unix(1000, 0)
	h, _ := hub(Options{Now: func() time.Time { return now }})
	hello := helloFor("q")
	hello.Version = "carillon-go/v0.3.1"
	r := h.Register(t.Context(), &fakeWorker{}, "worker", hello)
	if err := r.Join(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	if w := h.Workers()[0]; !w.LastSeen.Equal(w.Since) || w.Version != hello.Version {
		t.Errorf("before its first message: %+v", w)
	}
	r.Saw()
	if w := h.Workers()[0]; !w.LastSeen.Equal(now) {
		t.Errorf("last seen at %v, want %v", w.LastSeen, now)
	}
}
