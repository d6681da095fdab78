package multisession

import "math"

// creditPool is the credits of one queue and where they are. It is a pure machine: it is told what happened, and settle says what to do.
//
// Of what the worker granted each credit is free, in the node's credits of one node, or used up by a run that came. Only a node knows
// which of its credits are unused, so those asked back stay in its node's credits until it has answered.
type creditPool struct {
	free        int
	nodes       []*nodeCredits // in the order in which the nodes came
	withdrawals []*withdrawal  // what the worker takes back, in the order in which it asked; none is granted meanwhile
	turns       uint64         // so far
	used        int            // sum of the nodes' credits'
}

// nodeCredits is what one node has of a credit pool.
type nodeCredits struct {
	node      *node
	granted   int    // and not used, as far as is known
	asked     int    // how many of those have been asked back and not been answered
	wants     bool   // it said that runs wait, and has not been given credits since
	turn      uint64 // when it last was given a credit for that
	committed bool   // its credits are about to be used: it wanted them, or could not give them back. Until the next tick
	tried     bool   // asked for the first of the withdrawals
	leaving   bool   // it gets no more
	used      int    // runs that came from it, the older the less they count
	gets      int    // credits that settle has for it
}

// withdrawal is what the worker has asked back at once.
type withdrawal struct{ left, got int }

// move is credits for a node; n < 0 asks them back.
type move struct {
	node *node
	n    int
}

// fading is how many runs are counted before the older ones count half.
const fading = 1024

// ofNode is a node's; nil if it has none.
func (p *creditPool) ofNode(n *node) *nodeCredits {
	for _, k := range p.nodes {
		if k.node == n {
			return k
		}
	}
	return nil
}

// join makes a node's credits for a node.
func (p *creditPool) join(n *node) { p.nodes = append(p.nodes, &nodeCredits{node: n}) }

// leave takes away a node of which nothing more can come: what it had is free.
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

// retire gives a node no more credits and takes back what it has.
func (p *creditPool) retire(n *node) {
	if k := p.ofNode(n); k != nil {
		k.leaving, k.wants = true, false
	}
}

// add is n more credits of the worker's.
func (p *creditPool) add(n int) { p.free += n }

// takeBack gives up to n unused credits back to the worker.
func (p *creditPool) takeBack(n int) { p.withdrawals = append(p.withdrawals, &withdrawal{left: n}) }

// came is n runs from a node.
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

// returned is a node's answer: it gives n credits back, the others are used.
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

// wanted says that runs wait at a node that had no credits. Those that it has here are on their way to it, or runs that used them
// are on their way here: what it wants counts once it has none.
func (p *creditPool) wanted(by *node) {
	if k := p.ofNode(by); k != nil && !k.leaving {
		k.wants = true
	}
}

// tick is called now and then while the credit pool is restless: credits that were about to be used may not have been.
func (p *creditPool) tick() {
	for _, k := range p.nodes {
		k.committed = false
	}
}

// restless reports whether a tick could be of use.
func (p *creditPool) restless() bool {
	spoken, short := false, false
	for _, k := range p.nodes {
		spoken = spoken || k.committed && k.granted > 0
		short = short || k.short() || k.leaving && k.granted > 0
	}
	return spoken && short
}

// short reports whether the node has runs that wait and no credits.
func (k *nodeCredits) short() bool { return k.wants && k.granted == 0 }

// settle decides where credits go: moves to make, and for each withdrawal that is settled how much the worker got back.
func (p *creditPool) settle() (moves []move, answers []int) {
	answers = p.pay(&moves)
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

// pay settles withdrawals, by what is free and what nodes give back, each of which is asked once.
func (p *creditPool) pay(moves *[]move) (answers []int) {
	for len(p.withdrawals) > 0 {
		d := p.withdrawals[0]
		n := min(p.free, d.left)
		p.free -= n
		d.left -= n
		d.got += n
		if p.owes(d, moves) {
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

// owes asks nodes for what is left of a withdrawal; it reports whether more may come.
func (p *creditPool) owes(d *withdrawal, moves *[]move) (waits bool) {
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
			n = left // its answer is the worker's
		}
		if n > 0 && !k.tried && k.asked == 0 {
			k.tried, k.committed, waits = true, false, true
			left -= k.ask(n, moves)
		}
	}
	return waits
}

// ask asks a node for n of its credits back, unless it is being asked or is about to use them.
func (k *nodeCredits) ask(n int, moves *[]move) int {
	if n <= 0 || k.asked > 0 || k.committed {
		return 0
	}
	k.asked = n
	*moves = append(*moves, move{k.node, -n})
	return n
}

// probe asks a node for one credit, which it need not have; it reports false if an answer is due in any case.
func (p *creditPool) probe(n *node) bool {
	k := p.ofNode(n)
	if k == nil || k.asked > 0 {
		return false
	}
	k.asked = 1
	return true
}

// serve gives one free credit to each node that is short, in turn.
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

// share gives what is free to those who have least of it beside what they have used of late.
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

// fetch takes unused credits back for those who are short, from those who have most beside what they have used of late: as
// large a part as everybody would get.
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
