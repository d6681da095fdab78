package multisession

import (
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
)

// A connection that leads nowhere is only noticed after half a minute. Leases may be shorter than that, and a
// result should not wait so long while other nodes could relay it to the partition's owner. So a node that
// was sent reports and stays silent is pinged, and if it does not answer it becomes suspect: until it speaks
// again, what it was sent and will be sent goes to a second node, too.
//
//	         reports sent                  500 ms, or a heartbeat sent              500 ms
//	answered ────────────→ awaiting a reply ──────────────────────────→ pinged ──────────────→ suspect
//	    ↑                        │ any message                            │ Withdrawn           │
//	    └────────────────────────┴────────────────────────────────────────┴─────────────────────┘
//
// Withdrawing a credit is always answered, so it doubles as a ping, and once a node was pinged only that
// answer counts: anything else may have been sent before. While nodes have messages of their own all this is
// free. A quiet node costs one short question for each round of heartbeats, and one for each half second that
// a result waits.
//
// Two nodes may then answer the same result. lent remembers the second node of a token. That node also gets
// the attempt's final result, since a node that was sent a heartbeat holds the attempt until its result. The
// first final answer reaches the worker and moves the token to settled; a later one is dropped. Stale counts
// as final only when no node still owes an answer to the result, because it may refer to a heartbeat that
// came after the result, or to the copy that arrived second.

// suspectAfter is how long a node may leave reports, and then a ping, without a reply. The shortest lease
// still leaves twice as long for a lost heartbeat.
const suspectAfter = 500 * time.Millisecond

// unanswered records what a node has been sent since it last answered.
type unanswered struct {
	since      time.Time                     // zero: nothing is unanswered
	asked      bool                          // it was pinged, so only the answer to that counts
	suspected  bool                          // its reports go to a second node, too
	heartbeats map[string]carillon.Heartbeat // by token
}

// tell sends results and heartbeats to a node, and to a second node what should not depend on the first.
func (s *session) tell(n *node, req *carillon.WorkRequest) {
	second := s.seconds(n, req)
	s.say(n, req)
	for o, also := range second {
		s.say(o, also)
	}
}

// say sends results and heartbeats to one node and watches for its reply. The lock is held.
func (s *session) say(n *node, req *carillon.WorkRequest) {
	n.keep(req.Results)
	n.say(*req)
	if !s.expect(n) {
		return
	}
	for _, b := range req.Heartbeats {
		n.unanswered.heartbeats[b.Token] = b
	}
	for i := range req.Results {
		if req.Results[i].Outcome != carillon.OutcomeProgress {
			delete(n.unanswered.heartbeats, req.Results[i].Token) // stale after the result
		}
	}
	if len(req.Heartbeats) > 0 {
		s.ask(n) // heartbeats are not answered
	}
}

// expect starts to watch a node that owes a reply. It returns false if there is no other node to turn to.
func (s *session) expect(n *node) bool {
	if len(s.nodes) == 1 || s.goodbye || s.closing {
		return false
	}
	if n.unanswered.since.IsZero() {
		n.unanswered.since = time.Now()
	}
	s.keepWatching(suspectAfter)
	return true
}

// seconds returns, by node, the part of a request for n that other nodes get, too: everything if n is
// suspect, and the results of attempts whose heartbeats they were sent for that reason, since they hold
// those.
func (s *session) seconds(n *node, req *carillon.WorkRequest) map[*node]*carillon.WorkRequest {
	var other *node
	if n.unanswered.suspected {
		other = s.other(n)
	}
	if other == nil && len(s.lent) == 0 {
		return nil
	}
	out := map[*node]*carillon.WorkRequest{}
	to := func(o *node) *carillon.WorkRequest {
		if out[o] == nil {
			out[o] = &carillon.WorkRequest{}
		}
		return out[o]
	}
	if other != nil {
		s.lend(other, req)
		to(other).Heartbeats = slices.Clip(req.Heartbeats) // n gets the same slice; either may append
	}
	for i := range req.Results {
		r := &req.Results[i]
		o := other
		if lent := s.lent[r.Token]; lent != nil && !lent.gone && r.Outcome != carillon.OutcomeProgress {
			o = lent
		}
		if o != nil && o != n {
			to(o).Results = append(to(o).Results, *r)
		}
	}
	return out
}

// lend records that node o was sent reports on attempts of another node.
func (s *session) lend(o *node, req *carillon.WorkRequest) {
	note := func(token string) {
		if len(s.lent) < maxRoutes {
			s.lent[token] = o
		}
	}
	for _, b := range req.Heartbeats {
		note(b.Token)
	}
	for i := range req.Results {
		note(req.Results[i].Token)
	}
}

// other returns a node that is not suspect, to get what n may not receive; nil if there is none.
func (s *session) other(n *node) *node {
	for _, o := range s.nodes {
		if o != n && !o.leaving && !o.unanswered.suspected {
			return o
		}
	}
	return nil
}

// ask pings a node: a withdrawal of a credit is answered whether or not there is a credit.
func (s *session) ask(n *node) {
	if n.unanswered.asked {
		return
	}
	n.unanswered.asked, n.unanswered.since = true, time.Now()
	queue := s.order[0]
	if s.pools[queue].probe(n) {
		n.say(carillon.WorkRequest{Credits: []carillon.Credit{{Queue: queue, N: -1}}})
	}
}

// spoke records a message from a node. Once pinged, only the answer to the ping counts.
func (n *node) spoke(resp *carillon.WorkResponse) {
	if n.unanswered.asked && len(resp.Withdrawn) == 0 {
		return
	}
	clear(n.unanswered.heartbeats)
	n.unanswered = unanswered{heartbeats: n.unanswered.heartbeats}
}

// keepWatching makes sure that watch is called.
func (s *session) keepWatching(after time.Duration) {
	if !s.watching {
		s.watching = true
		s.watcher.Reset(after)
	}
}

// watch pings nodes that owe a reply, and suspects those that did not answer a ping.
func (s *session) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching = false
	if s.err != nil || s.goodbye || s.closing {
		return
	}
	now, next := time.Now(), time.Duration(0)
	for _, n := range s.nodes {
		if n.unanswered.since.IsZero() || n.unanswered.suspected {
			continue
		}
		left := suspectAfter - now.Sub(n.unanswered.since)
		switch {
		case left > 0:
		case !n.unanswered.asked:
			s.ask(n)
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
		s.keepWatching(next)
	}
}

// suspect sends another node what n was sent and may not have received. It returns false if there is no other
// node.
func (s *session) suspect(n *node) bool {
	other := s.other(n)
	if other == nil {
		return false
	}
	n.unanswered.suspected = true
	var req carillon.WorkRequest
	for _, token := range slices.Sorted(maps.Keys(n.unanswered.heartbeats)) {
		req.Heartbeats = append(req.Heartbeats, n.unanswered.heartbeats[token])
	}
	n.retell(func(token string) bool { return other.unsure[token].Token == "" }, func(results []carillon.Result) {
		req.Results = results
		s.lend(other, &req)
		s.say(other, &req)
		req = carillon.WorkRequest{}
	})
	if len(req.Heartbeats) > 0 {
		s.lend(other, &req)
		s.say(other, &req)
	}
	return true
}

// retell passes the unacknowledged results that wanted selects to say, at most maxRepeat at a time.
func (n *node) retell(wanted func(token string) bool, say func(results []carillon.Result)) {
	var results []carillon.Result
	for _, token := range slices.Sorted(maps.Keys(n.unsure)) {
		if !wanted(token) {
			continue
		}
		if results = append(results, n.unsure[token]); len(results) == maxRepeat {
			say(results)
			results = nil
		}
	}
	if len(results) > 0 {
		say(results)
	}
}

// maxRepeat bounds the results repeated in one request: with the largest responses it is about maxMessage
// bytes.
const maxRepeat = maxMessage / carillon.MaxResponse

// once keeps in resp only the first final answer for each token that two nodes may have been told of.
func (s *session) once(n *node, resp *carillon.WorkResponse) {
	if len(s.lent) == 0 && s.settled.empty() {
		return
	}
	resp.Acks = slices.DeleteFunc(resp.Acks, s.again)
	resp.Stale = slices.DeleteFunc(resp.Stale, func(token string) bool {
		delete(n.unsure, token)
		// A node that was sent the result still has to answer it: n may have got a heartbeat after the
		// result, or the second copy of the result.
		return s.told(token) || s.again(token)
	})
}

// again reports whether a final answer for a token was passed on before; if not, it is recorded as passed on
// now.
func (s *session) again(token string) bool {
	if s.settled.has(token) {
		delete(s.lent, token) // a node that was sent it since has nothing to add
		return true
	}
	if s.lent[token] != nil {
		s.settled.add(token)
		for _, n := range s.nodes {
			delete(n.unsure, token)
		}
	}
	return false
}

// told reports whether a node was sent the result of a token and has not acknowledged it.
func (s *session) told(token string) bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool { _, told := n.unsure[token]; return told })
}
