package multisession

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
)

// dial is one attempt, with retries, to open a session with a node.
type dial struct {
	life context.Context
	stop context.CancelFunc
}

// look starts to connect nodes that a connected node lists and that have no lasting session, and stops to
// connect nodes that none lists any more. The lock is held.
func (s *session) look() {
	if s.err != nil || s.closing || s.goodbye {
		return
	}
	known := map[string]bool{}
	for _, n := range s.nodes {
		for _, address := range n.view {
			if !known[address] {
				known[address] = true
				s.want(address)
			}
		}
	}
	for address, d := range s.dialing {
		if !known[address] {
			d.stop()
			delete(s.dialing, address)
		}
	}
}

// want starts to connect a node unless it is connected or being connected.
func (s *session) want(address string) {
	if s.dialing[address] != nil || !s.many && address == s.first.address {
		return
	}
	if slices.ContainsFunc(s.nodes, func(n *node) bool { return n.address == address && !n.leaving }) {
		return
	}
	if !s.many {
		s.many = true
		s.first.run()
		if s.first.leaving {
			s.retire(s.first)
		}
	}
	d := &dial{}
	d.life, d.stop = context.WithCancel(s.life)
	s.dialing[address] = d
	go s.dial(d, address, s.waits[address])
}

// dial connects a node. It retries until it succeeds or nobody wants the node any more.
func (s *session) dial(d *dial, address string, wait time.Duration) {
	defer d.stop()
	for {
		select {
		case <-time.After(wait/2 + rand.N(wait/2+1)):
		case <-d.life.Done():
			return
		}
		ctx, cancel := context.WithTimeout(d.life, connectTimeout)
		session, err := s.options.Connect(ctx, address, s.options.Hello)
		cancel()
		if err == nil {
			s.connected(d, address, session)
			return
		}
		wait = longer(wait)
	}
}

// longer returns the next backoff before a node is connected again.
func longer(wait time.Duration) time.Duration { return min(lastBackoff, max(firstBackoff, 2*wait)) }

// connected adds a new session with a node.
func (s *session) connected(d *dial, address string, session carillon.Session) {
	s.mu.Lock()
	wanted := s.dialing[address] == d
	if wanted {
		delete(s.dialing, address)
		n := newNode(s, session, address)
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

// stopDialing stops all attempts to connect. The lock is held.
func (s *session) stopDialing() {
	for _, d := range s.dialing {
		d.stop()
	}
	clear(s.dialing)
}

// add adds a node and its share of each credit pool. The lock is held.
func (s *session) add(n *node) {
	s.nodes = append(s.nodes, n)
	for _, q := range s.order {
		s.pools[q].join(n)
		s.resettle(q, s.pools[q])
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
		if time.Since(n.since) > lastBackoff {
			delete(s.waits, n.address)
		}
		s.waits[n.address] = longer(s.waits[n.address])
	}
	if len(s.nodes) == 0 || s.options.Tied && n == s.first || fatal(err) {
		s.stopDialing()
		s.failed(err)
		return
	}
	for _, q := range s.order {
		s.pools[q].leave(n)
		s.resettle(q, s.pools[q])
	}
	s.repeat(n)
	s.look()
	if s.sayDrain(n) {
		s.words.Drain = true
		ring(s.bell)
	}
}

// repeat sends the results that a lost node did not acknowledge, or was never sent, to other nodes.
// Heartbeats and progress are not repeated: the next ones do as well.
func (s *session) repeat(n *node) {
	if s.closing {
		return
	}
	heard := func(token string) bool { // has a node that is to answer been sent the result?
		return slices.ContainsFunc(s.nodes, func(o *node) bool { _, told := o.unsure[token]; return told && !o.unanswered.suspected })
	}
	n.retell(func(token string) bool { return !heard(token) }, func(results []carillon.Result) {
		s.sendMany(&carillon.WorkRequest{Results: results})
	})
	n.out, n.unsure = nil, nil
}
