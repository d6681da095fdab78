package multisession

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// poolModel is a credit pool with simulated nodes. What is said between the two arrives later, in order, when
// chance says so.
type poolModel struct {
	t       *testing.T
	chance  *rand.Rand
	pool    creditPool
	nodes   []*modelNode
	granted int // by the worker and not used by a run that came
	room    int // that the worker may grant
	flight  int // runs that the worker has
	limit   int
	pending int // withdrawals without an answer
}

// modelNode is a node as it is itself.
type modelNode struct {
	node    *node
	credits int
	backlog int
	told    bool
	to      []int     // credits on their way to it
	from    []message // on their way to the credit pool
}

// message is what a node says.
type message struct {
	runs   int
	wanted bool
	answer bool
	n      int
}

func newPoolModel(t *testing.T, seed uint64, limit int) *poolModel {
	return &poolModel{t: t, chance: rand.New(rand.NewPCG(seed, 1)), limit: limit, room: limit}
}

func (w *poolModel) join() {
	h := &modelNode{node: &node{}}
	w.nodes = append(w.nodes, h)
	w.pool.join(h.node)
	w.settle()
}

// lose cuts the session with a node. Runs on their way never come.
func (w *poolModel) lose(i int) {
	h := w.nodes[i]
	w.nodes = append(w.nodes[:i:i], w.nodes[i+1:]...)
	w.pool.leave(h.node)
	w.settle()
}

func (w *poolModel) settle() {
	moves, answers := w.pool.settle()
	for _, m := range moves {
		if m.n == 0 {
			w.t.Fatal("an empty move")
		}
		for _, h := range w.nodes {
			if h.node == m.node {
				h.to = append(h.to, m.n)
			}
		}
	}
	for _, n := range answers {
		w.pending--
		w.granted -= n
		w.room += n
	}
	w.check()
}

// check holds what must always be.
func (w *poolModel) check() {
	sum, real := w.pool.free, w.pool.free
	for _, k := range w.pool.nodes {
		sum += k.granted
		if k.granted < 0 || k.asked < 0 {
			w.t.Fatalf("node credits %+v", k)
		}
	}
	for _, d := range w.pool.withdrawals {
		sum += d.got
		real += d.got
	}
	for _, h := range w.nodes {
		real += h.credits
		for _, n := range h.to {
			real += max(0, n)
		}
		for _, f := range h.from {
			real += f.runs + f.n
		}
	}
	if sum != w.granted {
		w.t.Fatalf("the pool has %d of %d", sum, w.granted)
	}
	if real > w.granted || w.granted+w.flight > w.limit {
		w.t.Fatalf("%d credits are about and %d runs out: %d were granted and %d is the limit", real,
			w.flight, w.granted, w.limit)
	}
}

// serve lets a node hand out what it can and say when it cannot.
func (h *modelNode) serve() {
	if n := min(h.credits, h.backlog); n > 0 {
		h.credits -= n
		h.backlog -= n
		h.from = append(h.from, message{runs: n})
	}
	if h.credits > 0 {
		h.told = false
	} else if h.backlog > 0 && !h.told {
		h.told = true
		h.from = append(h.from, message{wanted: true})
	}
}

// hear lets a node take what was said to it.
func (w *poolModel) hear(h *modelNode) {
	if len(h.to) == 0 {
		return
	}
	n := h.to[0]
	h.to = h.to[1:]
	if n > 0 {
		h.credits += n
		h.told = false
	} else {
		back := min(-n, h.credits)
		if w.chance.IntN(4) == 0 {
			back = w.chance.IntN(back + 1) // the others are spoken for
		}
		h.credits -= back
		h.from = append(h.from, message{answer: true, n: back})
	}
	h.serve()
}

// listen lets the credit pool take what a node said.
func (w *poolModel) listen(h *modelNode) {
	if len(h.from) == 0 {
		return
	}
	f := h.from[0]
	h.from = h.from[1:]
	switch {
	case f.answer:
		w.pool.returned(h.node, f.n)
	case f.wanted:
		w.pool.wanted(h.node)
	default:
		w.pool.came(h.node, f.runs)
		w.granted -= f.runs
		w.flight += f.runs
	}
	w.settle()
}

func (w *poolModel) grant(n int) {
	if n > 0 {
		w.room -= n
		w.granted += n
		w.pool.add(n)
		w.settle()
	}
}

// step is anything that can happen.
func (w *poolModel) step() {
	var h *modelNode
	if len(w.nodes) > 0 {
		h = w.nodes[w.chance.IntN(len(w.nodes))]
	}
	switch k := w.chance.IntN(40); {
	case k == 0 && len(w.nodes) < 6:
		w.join()
	case k == 1 && len(w.nodes) > 1:
		w.lose(w.chance.IntN(len(w.nodes)))
	case k == 2 && h != nil:
		h.backlog += w.chance.IntN(20)
		h.serve()
	case k == 3:
		w.pool.tick()
		w.settle()
	case k == 4 && w.granted > 0:
		w.pending++
		w.pool.takeBack(1 + w.chance.IntN(w.granted))
		w.settle()
	case k < 9:
		n := min(w.flight, w.chance.IntN(5))
		w.flight -= n
		w.room += n
		w.grant(n)
	case k < 11:
		w.grant(w.chance.IntN(w.room + 1))
	case k < 25 && h != nil:
		w.hear(h)
	case h != nil:
		w.listen(h)
	}
}

// rest lets nothing new happen and delivers everything; runs stay where they are. It returns the rounds it
// took.
func (w *poolModel) rest() (rounds int) {
	for ; rounds < 200; rounds++ {
		quiet := true
		for _, h := range w.nodes {
			for len(h.to) > 0 {
				quiet = false
				w.hear(h)
			}
		}
		for _, h := range w.nodes {
			for len(h.from) > 0 {
				quiet = false
				w.listen(h)
			}
		}
		if quiet && !w.pool.restless() {
			return rounds
		}
		if quiet {
			w.pool.tick()
			w.settle()
		}
	}
	w.t.Fatalf("it goes on for ever: %+v", w.pool)
	return rounds
}

// TestCreditPoolInvariants lets anything happen in any order. The worker never has more than it granted,
// nothing is lost, and when it is quiet no node has runs that wait while there is a credit that nobody uses.
func TestCreditPoolInvariants(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newPoolModel(t, seed, 1+int(seed%7)*int(seed%11))
			w.join()
			for range 10 {
				for range 300 {
					w.step()
				}
				w.rest()
				if w.pending != 0 || len(w.pool.withdrawals) != 0 {
					t.Fatalf("%d debts are not answered", w.pending)
				}
				idle, short := w.pool.free, 0
				for _, h := range w.nodes {
					idle += h.credits
					if h.backlog > 0 && h.credits == 0 {
						short++
					}
				}
				if idle > 0 && short > 0 {
					t.Fatalf("%d nodes wait while %d credits are idle: %+v", short, idle, w.pool.nodes)
				}
			}
		})
	}
}

// TestOneCreditServesThreeNodes: with a single credit every node is served in turn, within two round trips of
// wanting it.
func TestOneCreditServesThreeNodes(t *testing.T) {
	w := newPoolModel(t, 1, 1)
	for range 3 {
		w.join()
	}
	w.grant(1)
	w.rest()
	for i := range 30 {
		h := w.nodes[i%3]
		h.backlog++
		h.serve()
		for trip := 0; h.backlog > 0; trip++ {
			if trip > 2 {
				t.Fatalf("run %d waits for more than two round trips", i)
			}
			for _, h := range w.nodes {
				for len(h.from) > 0 {
					w.listen(h)
				}
			}
			for _, h := range w.nodes {
				for len(h.to) > 0 {
					n := h.to[0]
					h.to = h.to[1:]
					if n < 0 {
						n = -min(-n, h.credits)
						h.from = append(h.from, message{answer: true, n: -n})
					}
					h.credits += n
					h.told = h.told && n <= 0
					h.serve()
				}
			}
		}
		w.rest()
		w.flight--
		w.room++
		w.grant(1)
		w.rest()
	}
}

// TestBusyNodesGetEqualShares: all nodes always have work; each gets its share and nothing moves in vain.
func TestBusyNodesGetEqualShares(t *testing.T) {
	w := newPoolModel(t, 1, 2)
	got := map[*node]int{}
	for range 3 {
		w.join()
	}
	for _, h := range w.nodes {
		h.backlog = 1 << 20
		h.serve()
	}
	for i := range 3000 {
		w.grant(w.room)
		for _, h := range w.nodes {
			for len(h.to) > 0 {
				if h.to[0] < 0 && i > 5 { // until all have said that they want
					t.Fatal("credits are asked back from a node that uses them")
				}
				w.hear(h)
			}
		}
		for _, h := range w.nodes {
			for len(h.from) > 0 {
				got[h.node] += h.from[0].runs
				w.listen(h)
			}
		}
		w.room += w.flight
		w.flight = 0
	}
	for _, n := range got {
		if n < 1900 || n > 2100 {
			t.Errorf("got %v", got)
		}
	}
}
