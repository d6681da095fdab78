package multisession

import (
	"context"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
)

// newIdleNode returns a node without a session, of a session that knows others.
func newIdleNode(t *testing.T, others ...*node) *node {
	s := &session{nodes: others, flights: flights{first: &node{}}}
	s.life, s.cancel = context.WithCancel(t.Context())
	t.Cleanup(s.cancel)
	n := newNode(s, nil, "n")
	s.nodes = append(s.nodes, n)
	return n
}

// TestNodeMergesWhatWaits: small requests become one, and large ones stay apart.
func TestNodeMergesWhatWaits(t *testing.T) {
	n := newIdleNode(t)
	for range 3 {
		n.enqueue(carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 1}}})
	}
	n.enqueue(carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: -1}}, Pong: true})
	large := carillon.WorkRequest{Results: []carillon.Result{{Token: "t",
		Message: strings.Repeat("x", maxMessage)}}}
	n.enqueue(large)
	n.enqueue(large)
	if len(n.out) != 3 {
		t.Fatalf("%d requests wait", len(n.out))
	}
	first, more, last := n.next()
	if c := first.Credits; len(c) != 2 || c[0].N != 3 || c[1].N != -1 || !first.Pong || !more || last {
		t.Errorf("%+v, more %v, last %v", first, more, last)
	}
	n.all.mu.Lock()
	n.close()
	n.all.mu.Unlock()
	for range 2 {
		if _, more, last := n.next(); !more || last {
			t.Error("what waited is not sent")
		}
	}
	if _, more, last := n.next(); more || !last || n.waiting != 0 {
		t.Errorf("more %v, last %v, %d bytes wait", more, last, n.waiting)
	}
}

// TestNodeThatAcceptsNothingIsGivenUp: what waits for it is bounded.
func TestNodeThatAcceptsNothingIsGivenUp(t *testing.T) {
	n := newIdleNode(t)
	large := carillon.WorkRequest{Results: []carillon.Result{{Message: strings.Repeat("x", maxMessage)}}}
	for range maxWaiting/maxMessage + 1 {
		n.enqueue(large)
	}
	if n.life.Err() == nil {
		t.Error("its session goes on")
	}
}

// TestNodeClosesWhenIdle: when it leaves, has no runs and no results to answer, and another stays.
func TestNodeClosesWhenIdle(t *testing.T) {
	for _, x := range []struct {
		what                    string
		leaving, flight, awaits bool
		other                   *node
		closes                  bool
	}{
		{"it stays", false, false, false, &node{}, false},
		{"it has runs", true, true, false, &node{}, false},
		{"it has results", true, false, true, &node{}, false},
		{"nobody stays", true, false, false, &node{leaving: true}, false},
		{"it leaves", true, false, false, &node{}, true},
	} {
		n := newIdleNode(t, x.other)
		n.leaving = x.leaving
		if x.flight {
			n.flight = 1
		}
		if x.awaits {
			n.awaiting.add([]carillon.Result{{Token: "t"}})
		}
		if n.closeIfIdle(); n.closing != x.closes {
			t.Errorf("%s: closing %v", x.what, n.closing)
		}
	}
}
