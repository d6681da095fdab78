package multisession

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/carillonhq/carillon"
)

// TestFlightsCount: at random events the nodes' counts are those of the runs that are in flight.
func TestFlightsCount(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	first, nodes := &node{}, []*node{{}, {}, {}}
	f := flights{first: first, nodes: map[string]*node{}}
	of := map[string]*node{}
	for i := range 5000 {
		if n := r.IntN(4); n < 3 && r.IntN(2) == 0 {
			runs := []carillon.Run{{Token: fmt.Sprint(i)}, {Token: fmt.Sprint(i, "too")}}
			f.add(nodes[n], runs)
			of[runs[0].Token], of[runs[1].Token] = nodes[n], nodes[n]
		}
		for token, n := range of {
			switch other := nodes[r.IntN(3)]; r.IntN(8) {
			case 0:
				f.move(token, true, other)
				n.flight-- // as if it were lost
				of[token] = other
			case 1:
				if f.remove(token) != n || f.remove(token) != nil {
					t.Fatal("it was another node's")
				}
				delete(of, token)
			}
			break
		}
		counts := map[*node]int{}
		for token, n := range of {
			if got, known := f.of(token); got != n || !known {
				t.Fatalf("%s is of another node", token)
			}
			counts[n]++
		}
		for _, n := range nodes {
			if n.flight != counts[n] {
				t.Fatalf("%d in flight, want %d", n.flight, counts[n])
			}
		}
	}
}

// TestFlightsOfTheFirstNode: they end with the worker's result, and progress ends none.
func TestFlightsOfTheFirstNode(t *testing.T) {
	f := flights{first: &node{}, nodes: map[string]*node{}}
	f.add(f.first, []carillon.Run{{Token: "a"}, {Token: "b"}})
	f.add(&node{}, []carillon.Run{{Token: "c"}})
	f.reported([]carillon.Result{{Token: "a"}, {Token: "b", Outcome: carillon.OutcomeProgress}, {Token: "c"}})
	if n, known := f.of("b"); n != f.first || known || f.first.flight != 1 {
		t.Errorf("known %v, %d in flight", known, f.first.flight)
	}
	f.reported([]carillon.Result{{Token: "b"}, {Token: "b"}})
	if f.first.flight != 0 {
		t.Errorf("%d in flight", f.first.flight)
	}
}

// TestFlightsAreBounded: of very many runs some are forgotten.
func TestFlightsAreBounded(t *testing.T) {
	f, n := flights{first: &node{}, nodes: map[string]*node{}}, &node{}
	for i := range maxRoutes + 10 {
		f.add(n, []carillon.Run{{Token: fmt.Sprint(i)}})
	}
	if len(f.nodes) != maxRoutes || n.flight != maxRoutes {
		t.Errorf("%d are known, %d in flight", len(f.nodes), n.flight)
	}
}
