package multisession

import (
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
)

// A connection that leads nowhere is only noticed after half a minute. Leases may be shorter than that, and a
// result should not wait so long while other nodes could relay it to the partition's owner. So a node that
// was sent reports and stays silent is pinged, and if it does not answer it becomes suspect (replyState):
// until it answers, what it was sent and will be sent goes to a second node, too.
//
// Withdrawing a credit is always answered, so it doubles as a ping, and once a node was pinged only that
// answer counts: anything else may have been sent before. While nodes have messages of their own all this is
// free. A quiet node costs one short question for each round of heartbeats, and one for each half second that
// a result waits.
//
// Two nodes may then answer the same result. copies remembers the second node of a token. That node also gets
// the attempt's final result, since a node that was sent a heartbeat holds the attempt until its result. The
// first final answer reaches the worker; a later one is dropped. Stale counts as final only when no node
// still has to answer the result, because it may refer to a heartbeat that came after the result, or to the
// copy that arrived second.

// report sends results and heartbeats to a node, and to a second node what should not depend on the first.
func (s *session) report(n *node, req *carillon.WorkRequest) {
	second := s.secondReports(n, req)
	s.reportTo(n, req)
	for o, also := range second {
		s.reportTo(o, also)
	}
}

// reportTo sends results and heartbeats to one node and watches for its reply. The lock is held.
func (s *session) reportTo(n *node, req *carillon.WorkRequest) {
	n.awaiting.add(req.Results)
	n.enqueue(*req)
	if !s.expectReply(n) {
		return
	}
	n.reply.add(req)
	if len(req.Heartbeats) > 0 {
		s.ping(n) // heartbeats are not answered
	}
}

// expectReply starts to watch a node. It returns false if there is no other node to turn to.
func (s *session) expectReply(n *node) bool {
	if len(s.nodes) == 1 || s.state != stateServing {
		return false
	}
	n.reply.sent(time.Now())
	s.watch.arm(suspectAfter)
	return true
}

// secondReports returns, by node, the part of a request for n that other nodes get, too: everything if n is
// suspect, and the results of attempts whose heartbeats they were sent for that reason, since they hold
// those.
func (s *session) secondReports(n *node, req *carillon.WorkRequest) requests {
	var other *node
	if n.reply.state == suspect {
		other = s.other(n)
	}
	if other == nil && len(s.copies.second) == 0 {
		return nil
	}
	out := requests{}
	if other != nil {
		s.copies.add(other, req)
		out.to(other).Heartbeats = slices.Clip(req.Heartbeats) // n gets the same slice; either may append
	}
	for i := range req.Results {
		r := &req.Results[i]
		o := other
		if second := s.copies.second[r.Token]; second != nil && !second.gone &&
			r.Outcome != carillon.OutcomeProgress {
			o = second
		}
		if o != nil && o != n {
			out.to(o).Results = append(out.to(o).Results, *r)
		}
	}
	return out
}

// other returns a node that is not suspect, to get what n may not receive; nil if there is none.
func (s *session) other(n *node) *node {
	for _, o := range s.nodes {
		if o != n && !o.leaving && o.reply.state != suspect {
			return o
		}
	}
	return nil
}

// ping asks a node for an answer, unless it was asked already.
func (s *session) ping(n *node) {
	if n.reply.ping(time.Now()) {
		s.allocation.probe(n)
	}
}

// watchReplies pings nodes that have not answered, and suspects those that did not answer a ping.
func (s *session) watchReplies() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch.rang()
	if s.state != stateServing {
		return
	}
	now, next := time.Now(), time.Duration(0)
	for _, n := range s.nodes {
		left, waits := n.reply.left(now)
		if !waits {
			continue
		}
		switch {
		case left > 0:
		case n.reply.state == unanswered:
			s.ping(n)
			left = suspectAfter
		case s.suspect(n):
			continue
		default: // no other node yet; try again
			left = suspectAfter
		}
		if next == 0 || left < next {
			next = left
		}
	}
	if next > 0 {
		s.watch.arm(next)
	}
}

// suspect sends another node what n was sent and may not have received. It returns false if there is no other
// node.
func (s *session) suspect(n *node) bool {
	other := s.other(n)
	if other == nil {
		return false
	}
	n.reply.suspect()
	var req carillon.WorkRequest
	for _, token := range slices.Sorted(maps.Keys(n.reply.heartbeats)) {
		req.Heartbeats = append(req.Heartbeats, n.reply.heartbeats[token])
	}
	repeat := func() {
		s.copies.add(other, &req)
		s.reportTo(other, &req)
		req = carillon.WorkRequest{}
	}
	isNew := func(token string) bool { return !other.awaiting.has(token) }
	n.awaiting.repeat(isNew, func(results []carillon.Result) {
		req.Results = results
		repeat()
	})
	if len(req.Heartbeats) > 0 {
		repeat()
	}
	return true
}

// firstAnswers keeps in resp only the first final answer for each token that two nodes may have been told of.
func (s *session) firstAnswers(n *node, resp *carillon.WorkResponse) {
	if s.copies.none() {
		return
	}
	resp.Acks = slices.DeleteFunc(resp.Acks, s.isRepeated)
	resp.Stale = slices.DeleteFunc(resp.Stale, func(token string) bool {
		delete(n.awaiting, token)
		// A node that was sent the result still has to answer it: n may have got a heartbeat after the
		// result, or the second copy of the result.
		return s.isAwaited(token) || s.isRepeated(token)
	})
}

// isRepeated reports whether a final answer for a token was passed on before; if not, it is recorded as
// passed on now.
func (s *session) isRepeated(token string) bool {
	repeated, firstOfTwo := s.copies.answer(token)
	if firstOfTwo {
		for _, n := range s.nodes {
			delete(n.awaiting, token)
		}
	}
	return repeated
}

// isAwaited reports whether a node was sent the result of a token and has not acknowledged it.
func (s *session) isAwaited(token string) bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool { return n.awaiting.has(token) })
}
