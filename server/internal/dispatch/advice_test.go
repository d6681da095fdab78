package dispatch_test

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
)

func TestAQueueThatNobodyServesIsKnown(t *testing.T) {
	h := dispatch.New(nil, dispatch.Options{})
	if h.Advise(delivery.Queue{Namespace: "ns", Kind: "worker", Address: "q"}) == "" {
		t.Error("nothing stands in its way")
	}
	for _, kind := range []string{"http", "dapr"} {
		if got := h.Advise(delivery.Queue{Namespace: "ns", Kind: kind, Address: "q"}); got != "" {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

func BenchmarkAdvise(b *testing.B) {
	h := dispatch.New(nil, dispatch.Options{})
	q := delivery.Queue{Namespace: "ns", Kind: "worker", Address: "q"}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.Advise(q)
		}
	})
}
