package multisession

import (
	"context"
	"slices"

	"github.com/carillonhq/carillon"
)

// Receive implements [carillon.Session]. If ctx ends first, the session is over.
func (s *session) Receive(ctx context.Context) (carillon.WorkResponse, error) {
	for {
		resp, err := s.next(ctx)
		if err != nil || !isEmptyResponse(&resp) {
			return resp, err
		}
	}
}

// next returns the next message, which may be empty.
func (s *session) next(ctx context.Context) (carillon.WorkResponse, error) {
	s.mu.Lock()
	resp, several := s.notices.take(), s.several
	s.mu.Unlock()
	if !isEmptyResponse(&resp) {
		return resp, nil
	}
	if !several {
		return s.receiveFirst(ctx)
	}
	select {
	case resp = <-s.in:
		s.dropExpiredLate(&resp)
		return resp, nil
	case <-s.notices.ready:
		return resp, nil
	case <-s.done:
		return resp, s.lastError()
	case <-ctx.Done():
		s.fail(carillon.Errorf(carillon.Canceled, "", "%w", ctx.Err()))
		return resp, s.lastError()
	}
}

// receiveFirst receives from the first node while it is the only one.
func (s *session) receiveFirst(ctx context.Context) (carillon.WorkResponse, error) {
	resp, err := s.first.session.Receive(ctx)
	if err != nil {
		s.fail(err)
		return resp, err
	}
	s.received(s.first, &resp)
	s.mu.Lock()
	credits := s.takeFirstCredits()
	s.mu.Unlock()
	if len(credits) > 0 {
		err = s.first.send(s.life, carillon.WorkRequest{Credits: credits})
	}
	return resp, err
}

// received handles a node's message and leaves in resp what the worker is to receive.
func (s *session) received(n *node, resp *carillon.WorkResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.reply.received(len(resp.Withdrawn) > 0)
	n.pinged = n.pinged || resp.Ping
	s.dropExpired(n, resp)
	s.receivedRuns(n, resp.Runs)
	s.firstAnswers(n, resp)
	if s.several {
		for _, tokens := range [...][]string{resp.Acks, resp.Stale, resp.Cancel} {
			for _, token := range tokens {
				s.answered(n, token)
			}
		}
	}
	if len(n.awaiting) > 0 {
		s.expectReply(n)
	}
	s.allocation.returned(n, resp.Withdrawn)
	s.allocation.wanted(n, resp.Wanted)
	resp.Wanted, resp.Withdrawn = nil, nil // the worker hears of its own withdrawals only
	if len(resp.Nodes) > 0 {
		s.receivedNodes(n, resp)
	}
	if resp.Drain {
		resp.Drain = s.draining(n)
	}
	n.closeIfIdle()
}

// dropExpired drops runs whose leases have ended: their node dispatches them again. Their credits are free.
func (s *session) dropExpired(n *node, resp *carillon.WorkResponse) {
	if s.options.Over == nil || n == s.first {
		return
	}
	resp.Runs = slices.DeleteFunc(resp.Runs, func(run carillon.Run) bool {
		expired := s.options.Over(&run)
		if expired {
			s.allocation.expired(n, run.Queue)
		}
		return expired
	})
}

// dropExpiredLate drops runs whose leases ended while they waited for the worker to receive them.
func (s *session) dropExpiredLate(resp *carillon.WorkResponse) {
	if s.options.Over == nil || len(resp.Runs) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	resp.Runs = slices.DeleteFunc(resp.Runs, func(run carillon.Run) bool {
		if !s.options.Over(&run) {
			return false
		}
		n := s.flights.remove(run.Token)
		if n == nil {
			n = s.first
			n.flight--
		}
		n.closeIfIdle()
		s.allocation.freed(run.Queue)
		return true
	})
}

// receivedRuns records the runs that came from a node.
func (s *session) receivedRuns(n *node, runs []carillon.Run) {
	for i := 0; i < len(runs); {
		queue, k := runs[i].Queue, 1
		for i+k < len(runs) && runs[i+k].Queue == queue {
			k++
		}
		i += k
		s.allocation.came(n, queue, k)
	}
	s.flights.add(n, runs)
}

// answered drops what is known of a token for which a node gave the final answer.
func (s *session) answered(n *node, token string) {
	delete(n.awaiting, token)
	s.copies.remove(token)
	if from := s.flights.remove(token); from != nil {
		from.closeIfIdle()
	}
}

// receivedNodes handles a node's list of all nodes. The worker receives it only if it changed.
func (s *session) receivedNodes(n *node, resp *carillon.WorkResponse) {
	before := n.view
	n.view = resp.Nodes
	if n.address == "" {
		n.address = resp.Nodes[0]
	}
	s.dropMissing(n, before)
	s.connectListed()
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

// draining handles a node's drain notice. It reports whether the worker is to connect again.
func (s *session) draining(n *node) bool {
	n.leaving = true
	if s.several {
		s.allocation.retire(n)
		s.connectListed()
	}
	return s.mustReconnect(n)
}

// mustReconnect reports, once, whether the worker is to connect again: n is leaving or gone and no other node
// serves it.
func (s *session) mustReconnect(n *node) bool {
	return (!s.stays() || s.isTiedTo(n)) && s.notices.drainOnce()
}
