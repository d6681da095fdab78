package delivery_test

import (
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestALineIsReadFromItsParkedQueue(t *testing.T) {
	plain := delivery.Queue{Namespace: "n", Kind: "worker", Address: "mails"}
	line := delivery.Line{Limit: delivery.Limit{Namespace: "n", Key: "customer-7"}, Queue: plain}
	parked := line.Parked()
	if got, ok := parked.Line(); !ok || got != line {
		t.Errorf("%v is read as %v, %v, want %v", parked, got, ok, line)
	}
	if !parked.Limited() || parked.Plain() != plain {
		t.Errorf("%v is limited: %v, its plain queue is %v", parked, parked.Limited(), parked.Plain())
	}
	if _, ok := plain.Line(); ok || plain.Limited() || plain.Plain() != plain {
		t.Errorf("%v is no line, but is read as one", plain)
	}
}

func TestALimitOfAnActorTypeIsNoConcurrencyKey(t *testing.T) {
	for _, c := range []struct{ actorType, key string }{{"cat", ""}, {"cat", "k"}, {"", ""}, {"a:b", "c:d"}} {
		l := delivery.ActorLimit("n", c.actorType, c.key)
		if actorType, key, ok := l.Actor(); !ok || actorType != c.actorType || key != c.key || !l.Named() {
			t.Errorf("%q is read as %q, %q, %v", l.Key, actorType, key, ok)
		}
		settings := carillon.Namespace{Name: "n", ConcurrencyLimits: map[string]int{l.Key: 1}}
		if settings.Validate() == nil {
			t.Errorf("settings can have the key %q", l.Key)
		}
	}
	if l := (delivery.Limit{Namespace: "n", Key: "cat"}); l.Named() {
		t.Errorf("sidecars name %q", l.Key)
	}
	if delivery.ActorLimit("n", "a", "b") == delivery.ActorLimit("n", "ab", "") {
		t.Error("the limit of a key is that of another type")
	}
}

// TestTheNarrowLimitComesFirst, then the type's: a run that holds the first and waits for the second keeps it
// from nobody who could go on.
func TestTheNarrowLimitComesFirst(t *testing.T) {
	cat := func(key string) carillon.Target {
		return carillon.Target{Dapr: &carillon.DaprTarget{AppID: "x", ActorType: "cat", ActorID: "1",
			ConcurrencyKey: key}}
	}
	own, narrow, whole := delivery.Limit{Namespace: "n", Key: "own"}, delivery.ActorLimit("n", "cat", "k"),
		delivery.ActorLimit("n", "cat", "")
	for _, c := range []struct {
		job  carillon.Job
		want []delivery.Limit
	}{
		{carillon.Job{Target: carillon.WorkerQueue("q")}, nil},
		{carillon.Job{Target: carillon.WorkerQueue("q"), ConcurrencyKey: "own"}, []delivery.Limit{own}},
		{carillon.Job{Target: carillon.Target{Dapr: &carillon.DaprTarget{AppID: "x", ConcurrencyKey: "k"}}}, nil},
		{carillon.Job{Target: cat("")}, []delivery.Limit{whole}},
		{carillon.Job{Target: cat("k")}, []delivery.Limit{narrow, whole}},
		{carillon.Job{Target: cat("k"), ConcurrencyKey: "own"}, []delivery.Limit{own, narrow, whole}},
	} {
		c.job.Namespace = "n"
		if got := delivery.AppendLimits(nil, &c.job, nil); !slices.Equal(got, c.want) || len(got) > delivery.MostLimits {
			t.Errorf("%+v is under %q, not %q", c.job.Target, got, c.want)
		}
	}
}
