package multisession

import (
	"testing"

	"github.com/carillonhq/carillon"
)

// TestNotices: what is pending is taken once, and the worker is told once to connect again.
func TestNotices(t *testing.T) {
	o := notices{ready: make(chan struct{}, 1)}
	o.withdrawn(carillon.Credit{Queue: "q", N: 1})
	o.withdrawn(carillon.Credit{Queue: "q", N: 0})
	o.drain()
	if len(o.ready) != 1 {
		t.Error("the receiver is not woken")
	}
	if r := o.take(); len(r.Withdrawn) != 2 || !r.Drain {
		t.Errorf("pending: %+v", r)
	}
	if r := o.take(); !isEmptyResponse(&r) {
		t.Errorf("taken twice: %+v", r)
	}
	if !o.drainOnce() || o.drainOnce() {
		t.Error("the worker is not told once")
	}
}
