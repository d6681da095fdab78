package dispatch_test

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/dispatch"
)

type flying struct{ token string }

// TestFlights: those that have started land, also one whose token another one has by then, and none starts
// after the transport leaves.
func TestFlights(t *testing.T) {
	f := dispatch.NewFlights(func(f *flying) string { return f.token })
	a, b, again := &flying{"a"}, &flying{"b"}, &flying{"a"}
	if !f.Start([]*flying{a, b}) || !f.Start([]*flying{again}) {
		t.Fatal("they do not start")
	}
	f.Land(a)
	if f.Find("a") != again || f.Find("b") != b || f.Find("c") != nil || len(f.All()) != 2 {
		t.Errorf("in flight are %v", f.All())
	}
	over := f.Leave()
	if f.Start([]*flying{a}) {
		t.Error("one starts after the transport leaves")
	}
	f.Land(again)
	select {
	case <-over:
		t.Error("one is in flight")
	default:
	}
	f.Land(b)
	<-f.Leave()
	<-over
}

// TestNoFlights: a transport that has none has left at once.
func TestNoFlights(t *testing.T) {
	f := dispatch.NewFlights(func(f *flying) string { return f.token })
	<-f.Leave()
	f.Land()
}
