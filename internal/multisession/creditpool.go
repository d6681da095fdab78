package multisession

import "math"

// creditPool tracks a worker's credits of one queue over all nodes. It is a pure state machine: the session
// reports events to it, and settle returns the moves to make. Each credit that the worker granted is in one
// of these states:
//
//	         add           serve, share              came
//	worker ───────→ free ───────────────→ granted ──────────→ used up by a run
//	   ↑             │ ↑                   │   ↑
//	   │ Withdrawn   │ │ given back    ask │   │ not given back: used by a run
//	   └─────────────┘ │                   ↓   │ that is on its way
//	    withdraw       └───────────────── asked
//
// Only the node knows which of its credits are still unused: a run that uses one may be on its way to the
// worker. So a credit that is asked back still counts as granted until the node answers how many it gives
// back, and there are never more runs out than the worker granted.
//
// A node whose runs wait without a credit reports it (wanted). It gets the next free credit, or one is asked
// back from the node that has the most in proportion to what it used lately. A node that wanted its credits,
// or could not give them back, is about to use them: they are committed, and not asked back until the next
// tick or until a run came. The worker's own withdrawals come first: no credit is granted while one is
// pending, and each node is asked once for each withdrawal. If there is only one node, the pool asks it for
// all that the worker wants back, even for more than the node has: its answer is the answer to the worker.
type creditPool struct {
	free        int
	nodes       []*nodeCredits // in the order in which they joined
	withdrawals []*withdrawal  // pending, oldest first; no credit is granted meanwhile
	turns       uint64         // number of credits given by serve
	used        int            // sum of the nodes' used
}

// nodeCredits is the part of a credit pool that one node has.
type nodeCredits struct {
	node      *node
	granted   int    // and not used, as far as is known; includes asked
	asked     int    // asked back and not answered yet
	wants     bool   // runs wait there, and it was given no credit since
	turn      uint64 // when serve last gave it a credit, by turns
	committed bool   // until the next tick: its credits are about to be used (see above)
	tried     bool   // asked for the oldest withdrawal
	leaving   bool   // gets no more credits
	used      int    // runs that came from it; halved with age
	gets      int    // credits that this settle gives it
}

// withdrawal is one request of the worker to take credits back: how many are still to come, and how many
// came.
type withdrawal struct{ left, got int }

// move sends n credits to a node; n < 0 asks for them back.
type move struct {
	node *node
	n    int
}

// fading is how many used credits a pool counts before it halves the counts of all nodes.
const fading = 1024

// ofNode returns a node's credits; nil if it has none.
func (p *creditPool) ofNode(n *node) *nodeCredits {
	for _, k := range p.nodes {
		if k.node == n {
			return k
		}
	}
	return nil
}

// join adds a node, without credits.
func (p *creditPool) join(n *node) { p.nodes = append(p.nodes, &nodeCredits{node: n}) }

// leave removes a node of which nothing more can come. Its credits become free.
func (p *creditPool) leave(n *node) {
	for i, k := range p.nodes {
		if k.node == n {
			p.free += k.granted
			p.used -= k.used
			p.nodes = append(p.nodes[:i:i], p.nodes[i+1:]...)
			return
		}
	}
}

// retire stops granting credits to a node; settle asks back those that it has.
func (p *creditPool) retire(n *node) {
	if k := p.ofNode(n); k != nil {
		k.leaving, k.wants = true, false
	}
}

// add adds n credits granted by the worker.
func (p *creditPool) add(n int) { p.free += n }

// takeBack starts a withdrawal of up to n unused credits.
func (p *creditPool) takeBack(n int) { p.withdrawals = append(p.withdrawals, &withdrawal{left: n}) }

// came records n runs from a node, each of which used a credit.
func (p *creditPool) came(from *node, n int) {
	k := p.ofNode(from)
	if k == nil {
		return
	}
	k.granted = max(0, k.granted-n)
	k.committed = false
	k.used += n
	if p.used += n; p.used > fading {
		p.used = 0
		for _, k := range p.nodes {
			k.used /= 2
			p.used += k.used
		}
	}
}

// returned records a node's answer: n credits come back. The rest of those asked for were used.
func (p *creditPool) returned(by *node, n int) {
	k := p.ofNode(by)
	if k == nil {
		return
	}
	n = max(0, min(n, k.asked, k.granted))
	k.committed = n < k.asked
	k.asked = 0
	k.granted -= n
	p.free += n
}

// wanted records that runs wait at a node that had no credits. If the pool still counts credits of that node,
// they are on their way to it, or runs that used them are on their way here. So the wish counts once granted
// is 0.
func (p *creditPool) wanted(by *node) {
	if k := p.ofNode(by); k != nil && !k.leaving {
		k.wants = true
	}
}

// tick clears committed: credits that were about to be used may not have been. Called while restless.
func (p *creditPool) tick() {
	for _, k := range p.nodes {
		k.committed = false
	}
}

// restless reports whether a tick may help: a node is short, and another has committed credits.
func (p *creditPool) restless() bool {
	committed, short := false, false
	for _, k := range p.nodes {
		committed = committed || k.committed && k.granted > 0
		short = short || k.short() || k.leaving && k.granted > 0
	}
	return committed && short
}

// short reports whether runs wait at the node and it has no credits.
func (k *nodeCredits) short() bool { return k.wants && k.granted == 0 }

// settle returns the moves to make, and for each completed withdrawal how many credits the worker got back.
func (p *creditPool) settle() (moves []move, answers []int) {
	answers = p.withdraw(&moves)
	for _, k := range p.nodes {
		if k.leaving {
			k.ask(k.granted, &moves)
		}
	}
	if len(p.withdrawals) == 0 && p.free > 0 {
		p.serve()
		p.share()
	}
	for _, k := range p.nodes {
		if k.gets > 0 {
			moves = append(moves, move{k.node, k.gets})
			k.gets = 0
		}
	}
	if len(p.withdrawals) == 0 {
		p.fetch(&moves)
	}
	return moves, answers
}

// withdraw serves withdrawals, oldest first, from free credits and from what nodes give back. It asks each
// node once.
func (p *creditPool) withdraw(moves *[]move) (answers []int) {
	for len(p.withdrawals) > 0 {
		d := p.withdrawals[0]
		n := min(p.free, d.left)
		p.free -= n
		d.left -= n
		d.got += n
		if p.fetchRest(d, moves) {
			return answers
		}
		answers = append(answers, d.got)
		p.withdrawals = p.withdrawals[1:]
		for _, k := range p.nodes {
			k.tried = false
		}
	}
	return answers
}

// fetchRest asks nodes for the rest of a withdrawal. It reports whether answers are still to come.
func (p *creditPool) fetchRest(d *withdrawal, moves *[]move) (waits bool) {
	left := d.left
	if left == 0 {
		return false
	}
	for _, k := range p.nodes {
		left -= k.asked
		waits = waits || k.asked > 0
	}
	for _, k := range p.nodes {
		n := min(left, k.granted)
		if len(p.nodes) == 1 {
			n = left // its answer is the answer to the worker
		}
		if n > 0 && !k.tried && k.asked == 0 {
			k.tried, k.committed, waits = true, false, true
			left -= k.ask(n, moves)
		}
	}
	return waits
}

// ask asks a node for n of its credits, unless a question is pending or the credits are about to be used.
func (k *nodeCredits) ask(n int, moves *[]move) int {
	if n <= 0 || k.asked > 0 || k.committed {
		return 0
	}
	k.asked = n
	*moves = append(*moves, move{k.node, -n})
	return n
}

// probe asks a node for one credit, which it need not have. It returns false if an answer is due anyway.
func (p *creditPool) probe(n *node) bool {
	k := p.ofNode(n)
	if k == nil || k.asked > 0 {
		return false
	}
	k.asked = 1
	return true
}

// serve gives one free credit to each short node, least recently served first.
func (p *creditPool) serve() {
	for p.free > 0 {
		var first *nodeCredits
		for _, k := range p.nodes {
			if k.short() && (first == nil || k.turn < first.turn) {
				first = k
			}
		}
		if first == nil {
			return
		}
		p.turns++
		first.wants, first.committed, first.turn = false, true, p.turns
		p.give(first, 1)
	}
}

func (p *creditPool) give(k *nodeCredits, n int) {
	k.granted += n
	p.free -= n
	k.gets += n
}

// share distributes free credits to the nodes that have the fewest in proportion to what they used lately.
func (p *creditPool) share() {
	chunk := max(1, p.free/(8*max(1, len(p.nodes))))
	for p.free > 0 {
		var least *nodeCredits
		ratio := math.Inf(1)
		for _, k := range p.nodes {
			if r := float64(k.granted+1) / float64(k.used+1); !k.leaving && r < ratio {
				least, ratio = k, r
			}
		}
		if least == nil {
			return
		}
		p.give(least, min(chunk, p.free))
	}
}

// fetch asks for unused credits on behalf of short nodes, first from the node that has the most in proportion
// to what it used lately. It asks for as large a part as leaves every node an equal one.
func (p *creditPool) fetch(moves *[]move) {
	short, need := 0, 0
	for _, k := range p.nodes {
		if k.short() {
			short++
		}
		need -= k.asked
	}
	for need += short; need > 0; {
		var most *nodeCredits
		ratio := 0.0
		for _, k := range p.nodes {
			if r := float64(k.granted) / float64(k.used+1); k.asked == 0 && !k.committed && r > ratio {
				most, ratio = k, r
			}
		}
		if most == nil {
			return
		}
		need -= most.ask((most.granted*short+short)/(short+1), moves)
	}
}
