package multisession

import (
	"errors"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
)

// connectListed starts to connect nodes that a connected node lists and that have no lasting session, and
// stops to connect nodes that none lists any more. The lock is held.
func (s *session) connectListed() {
	if s.state != stateServing {
		return
	}
	listed := map[string]bool{}
	for _, n := range s.nodes {
		for _, address := range n.view {
			if !listed[address] {
				listed[address] = true
				s.connect(address)
			}
		}
	}
	s.dialer.keep(listed)
}

// connect starts to connect a node unless it is connected or being connected.
func (s *session) connect(address string) {
	if !s.several && address == s.first.address {
		return
	}
	if slices.ContainsFunc(s.nodes, func(n *node) bool { return n.address == address && !n.leaving }) {
		return
	}
	if !s.several {
		s.several = true
		s.first.run()
		if s.first.leaving {
			s.allocation.retire(s.first)
		}
	}
	s.dialer.start(address)
}

// connected adds a new session with a node.
func (s *session) connected(d *dial, session carillon.Session) {
	s.mu.Lock()
	wanted := s.dialer.finish(d)
	if wanted {
		n := newNode(s, session, d.address)
		s.add(n)
		n.run()
		for _, old := range s.nodes {
			old.closeIfIdle()
		}
	}
	s.mu.Unlock()
	if !wanted {
		_ = session.Close() // it was not used
	}
}

// add adds a node and its share of each credit pool. The lock is held.
func (s *session) add(n *node) {
	s.nodes = append(s.nodes, n)
	s.allocation.join(n)
}

// dropMissing gives up nodes that disappeared from this node's list and are in no other node's list. The
// cluster finds out sooner than a connection that leads nowhere breaks; until then the credits there would be
// useless and reports to it lost. A node that is alive after all appears in a list again and is connected
// again.
func (s *session) dropMissing(by *node, before []string) {
	if len(by.view) == 1 && len(before) > 2 {
		return // it lost sight of all others, which proves nothing about them
	}
	for _, address := range before {
		if slices.ContainsFunc(s.nodes, func(o *node) bool {
			return o.address != address && slices.Contains(o.view, address)
		}) {
			continue
		}
		for _, n := range s.nodes {
			if n.address == address && n != by && !s.isTiedTo(n) {
				n.cut()
			}
		}
	}
}

// lost handles the end of a node's session: its credits become free, and other nodes get the results that it
// may not have received.
func (s *session) lost(n *node, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.gone = true
	s.nodes = slices.DeleteFunc(s.nodes, func(o *node) bool { return o == n })
	if n.address != "" {
		s.dialer.lost(n.address, time.Since(n.since))
	}
	if len(s.nodes) == 0 || s.isTiedTo(n) || isFatal(err) {
		s.failLocked(err)
		return
	}
	s.allocation.leave(n)
	s.repeat(n)
	s.connectListed()
	if s.mustReconnect(n) {
		s.notices.drain()
	}
}

// repeat sends the results that a lost node did not acknowledge, or was never sent, to other nodes.
// Heartbeats and progress are not repeated: the next ones do as well.
func (s *session) repeat(n *node) {
	if s.state.shut() {
		return
	}
	isSent := func(token string) bool { // to a node that is to answer
		return slices.ContainsFunc(s.nodes, func(o *node) bool {
			return o.awaiting.has(token) && o.reply.state != suspect
		})
	}
	n.awaiting.repeat(func(token string) bool { return !isSent(token) }, func(results []carillon.Result) {
		s.sendToAll(&carillon.WorkRequest{Results: results})
	})
	n.out, n.awaiting = nil, nil
}

// stays reports whether there is a node that is not leaving.
func (s *session) stays() bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool { return !n.leaving })
}

// isTiedTo reports whether the session ends with a node's session.
func (s *session) isTiedTo(n *node) bool { return s.options.Tied && n == s.first }

// isFatal reports whether a node ended its session because of what the worker sent: any other node would do
// the same.
func isFatal(err error) bool { return errors.Is(err, carillon.InvalidArgument) }
