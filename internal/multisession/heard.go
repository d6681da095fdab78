package multisession

import (
	"slices"

	"github.com/carillonhq/carillon"
)

// maxRoutes is how many runs' nodes are remembered at most. A worker that never says how its runs ended must not cost more; a
// run whose node is forgotten is spoken of through the first.
const maxRoutes = 1 << 18

// heard takes what a node said and leaves in resp what the worker is to know.
func (s *session) heard(n *node, resp *carillon.WorkResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.spoke(resp)
	n.pinged = n.pinged || resp.Ping
	s.sift(n, resp)
	s.runs(n, resp.Runs)
	s.once(n, resp)
	for _, tokens := range [...][]string{resp.Acks, resp.Stale, resp.Cancel} {
		for _, token := range tokens {
			s.forget(n, token)
		}
	}
	if len(n.unsure) > 0 {
		s.expect(n)
	}
	s.aboutCredits(n, resp)
	if len(resp.Nodes) > 0 {
		s.aboutNodes(n, resp)
	}
	if resp.Drain {
		resp.Drain = s.draining(n)
	}
	if n.leaving {
		n.closeIfIdle()
	}
}

// sift drops runs whose leases have ended: their node gives them to somebody else. Their credits are free.
func (s *session) sift(n *node, resp *carillon.WorkResponse) {
	if s.options.Over == nil || n == s.first {
		return
	}
	resp.Runs = slices.DeleteFunc(resp.Runs, func(run carillon.Run) bool {
		if !s.options.Over(&run) {
			return false
		}
		if p := s.pools[run.Queue]; p != nil {
			p.came(n, 1)
			p.add(1)
			s.resettle(run.Queue, p)
		}
		return true
	})
}

// siftLast drops runs whose leases have ended while the worker did not receive them, before they are passed
// on to it.
func (s *session) siftLast(resp *carillon.WorkResponse) {
	if s.options.Over == nil || len(resp.Runs) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	resp.Runs = slices.DeleteFunc(resp.Runs, func(run carillon.Run) bool {
		if !s.options.Over(&run) {
			return false
		}
		if n, known := s.routes[run.Token]; known {
			n.flight--
			delete(s.routes, run.Token)
			n.closeIfIdle()
		} else {
			s.first.flight--
		}
		if p := s.pools[run.Queue]; p != nil {
			p.add(1)
			s.resettle(run.Queue, p)
		}
		return true
	})
}

// runs notes runs that came from a node.
func (s *session) runs(n *node, runs []carillon.Run) {
	n.flight += len(runs)
	for i := 0; i < len(runs); {
		queue, k := runs[i].Queue, 1
		for i+k < len(runs) && runs[i+k].Queue == queue {
			k++
		}
		i += k
		if p := s.pools[queue]; p != nil {
			p.came(n, k)
			s.resettle(queue, p)
		}
	}
	if n == s.first {
		return
	}
	for i := range runs {
		if len(s.routes) >= maxRoutes {
			for token, from := range s.routes {
				from.flight--
				delete(s.routes, token)
				break
			}
		}
		s.routes[runs[i].Token] = n
	}
}

// resettle settles a credit pool unless nothing can come of it.
func (s *session) resettle(queue string, p *creditPool) {
	if s.many && !s.goodbye && !s.closing {
		s.settle(queue, p, nil)
	}
}

// forget ends what is known of a token of which a node said the last word.
func (s *session) forget(n *node, token string) {
	if !s.many {
		return
	}
	delete(n.unsure, token)
	delete(s.lent, token)
	if from, known := s.routes[token]; known {
		from.flight--
		delete(s.routes, token)
		from.closeIfIdle()
	}
}

// aboutCredits takes what a node said about credits, which is not for the worker.
func (s *session) aboutCredits(n *node, resp *carillon.WorkResponse) {
	wanted, withdrawn := resp.Wanted, resp.Withdrawn
	resp.Wanted, resp.Withdrawn = nil, nil
	for _, c := range withdrawn {
		if p := s.pools[c.Queue]; p != nil {
			p.returned(n, c.N)
			if !s.goodbye && !s.closing {
				s.late = s.settle(c.Queue, p, s.late)
			}
		}
	}
	for _, q := range wanted {
		if p := s.pools[q]; p != nil {
			p.wanted(n)
			s.resettle(q, p)
		}
	}
}

// aboutNodes takes a node's word on where all nodes are. The worker hears of it when it is news.
func (s *session) aboutNodes(n *node, resp *carillon.WorkResponse) {
	before := n.view
	n.view = resp.Nodes
	if n.address == "" {
		n.address = resp.Nodes[0]
	}
	s.missing(n, before)
	s.look()
	sorted := slices.Sorted(slices.Values(resp.Nodes))
	if slices.Equal(sorted, s.learned) {
		resp.Nodes = nil
		return
	}
	s.learned = sorted
	if s.options.Learn != nil {
		s.options.Learn(slices.Clone(resp.Nodes))
	}
}

// missing gives up the nodes that are gone by a node's word and by that of all others: the cluster finds out sooner than a connection
// that goes nowhere, and till then the credits there would be of no use and what was said there not heard. One that is not gone after
// all comes back into view and is connected anew.
func (s *session) missing(by *node, before []string) {
	if len(by.view) == 1 && len(before) > 2 {
		return // it sees nobody any more, which says nothing of the others
	}
	for _, address := range before {
		if slices.ContainsFunc(s.nodes, func(o *node) bool { return o.address != address && slices.Contains(o.view, address) }) {
			continue
		}
		for _, n := range s.nodes {
			if n.address == address && n != by && !(s.options.Tied && n == s.first) {
				n.cut()
			}
		}
	}
}

// draining takes a node's word that it is leaving, or wants another session; it reports whether the worker is to connect anew.
func (s *session) draining(n *node) bool {
	n.leaving = true
	if s.many {
		s.retire(n)
		s.look()
	}
	return s.sayDrain(n)
}

// retire takes the credits of a node that is leaving back.
func (s *session) retire(n *node) {
	for _, q := range s.order {
		s.pools[q].retire(n)
		s.resettle(q, s.pools[q])
	}
}

// stays reports whether a node is there that is not leaving.
func (s *session) stays() bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool { return !n.leaving })
}

// sayDrain reports whether the worker is to connect anew since n is leaving or gone: no other node serves it. It says so once.
func (s *session) sayDrain(n *node) bool {
	if s.stays() && !(s.options.Tied && n == s.first) || s.drained {
		return false
	}
	s.drained = true
	return true
}
