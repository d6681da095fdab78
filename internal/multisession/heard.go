package multisession

import (
	"slices"

	"github.com/carillonhq/carillon"
)

// maxRoutes bounds the runs whose nodes are remembered. It bounds what a worker that never reports the end of
// its runs can cost. Reports on a run whose node was forgotten go through the first node.
const maxRoutes = 1 << 18

// heard handles a node's message and leaves in resp what the worker is to receive.
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

// sift drops runs whose leases have ended: their node dispatches them again. Their credits are free.
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

// siftLast drops runs whose leases ended while they waited for the worker to receive them.
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

// runs records the runs that came from a node.
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

// resettle settles a credit pool unless that is of no use any more.
func (s *session) resettle(queue string, p *creditPool) {
	if s.many && !s.goodbye && !s.closing {
		s.settle(queue, p, nil)
	}
}

// forget drops what is known of a token for which a node gave the final answer.
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

// aboutCredits handles and removes the parts of a message about credits, which are not for the worker.
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

// aboutNodes handles a node's list of all nodes. The worker receives it only if it changed.
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

// missing gives up nodes that disappeared from this node's list and are in no other node's list. The cluster
// finds out sooner than a connection that leads nowhere breaks; until then the credits there would be useless
// and reports to it lost. A node that is alive after all appears in a list again and is connected again.
func (s *session) missing(by *node, before []string) {
	if len(by.view) == 1 && len(before) > 2 {
		return // it lost sight of all others, which proves nothing about them
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

// draining handles a node's drain notice. It reports whether the worker is to connect again.
func (s *session) draining(n *node) bool {
	n.leaving = true
	if s.many {
		s.retire(n)
		s.look()
	}
	return s.sayDrain(n)
}

// retire asks for the credits of a node that is leaving.
func (s *session) retire(n *node) {
	for _, q := range s.order {
		s.pools[q].retire(n)
		s.resettle(q, s.pools[q])
	}
}

// stays reports whether there is a node that is not leaving.
func (s *session) stays() bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool { return !n.leaving })
}

// sayDrain reports, once, whether the worker is to connect again: n is leaving or gone and no other node
// serves it.
func (s *session) sayDrain(n *node) bool {
	if s.stays() && !(s.options.Tied && n == s.first) || s.drained {
		return false
	}
	s.drained = true
	return true
}
