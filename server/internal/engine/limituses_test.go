package engine_test

import (
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestLimitsAreCounted, those that nobody uses included.
func TestLimitsAreCounted(t *testing.T) {
	n := start(t, memory.New(memory.Options{Partitions: 4}))
	defer n.stop()
	if uses := n.LimitUses(); uses != nil {
		t.Errorf("without limits: %+v", uses)
	}
	if _, err := n.PutNamespace(t.Context(), carillon.Namespace{Name: "default",
		ConcurrencyLimits: map[string]int{"b": 2, "a": 3}}); err != nil {
		t.Fatal(err)
	}
	s, err := n.hub.Connect(t.Context(), carillon.Hello{Queues: []string{"q"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 5}}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "y", "z"} {
		if _, err := n.PutJob(t.Context(), carillon.Job{Name: name, ConcurrencyKey: "b",
			Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
	}
	for got := 0; got < 2; {
		r, err := s.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got += len(r.Runs)
	}
	of := func(key string) delivery.Limit { return delivery.Limit{Namespace: "default", Key: key} }
	want := []engine.LimitUse{{Limit: of("a"), Of: 3}, {Limit: of("b"), Held: 2, Of: 2}}
	if uses := n.LimitUses(); !slices.Equal(uses, want) {
		t.Errorf("%+v, want %+v", uses, want)
	}
}
