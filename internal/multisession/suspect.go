package multisession

import (
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
)

// A connection that leads nowhere is noticed after half a minute. Leases may be shorter, and a result should not wait for so long
// while other nodes are there, each of which passes on what is for another. So a node that was told something and says nothing is
// asked for a word, which it gives at once, and what it was told is told to another too until it speaks. That costs nothing while
// nodes speak, and one short question for each round of heartbeats, and each second that a result waits, while they have nothing to say.

// suspectAfter is how long a node may owe a word. The shortest lease leaves twice as long to a heartbeat that is lost.
const suspectAfter = 500 * time.Millisecond

// unanswered is what a node has been told since it spoke.
type unanswered struct {
	since      time.Time                     // zero: nothing
	asked      bool                          // for a word, so that no other word will do
	suspected  bool                          // what it is told is told to another too
	heartbeats map[string]carillon.Heartbeat // by token
}

// tell says results and heartbeats to a node, and to a second one what should not hang on it.
func (s *session) tell(n *node, req *carillon.WorkRequest) {
	second := s.seconds(n, req)
	s.say(n, req)
	for o, also := range second {
		s.say(o, also)
	}
}

// say says results and heartbeats to one node and watches whether it lives. The lock is held.
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
			delete(n.unanswered.heartbeats, req.Results[i].Token) // a heartbeat that overtook the result would be stale
		}
	}
	if len(req.Heartbeats) > 0 {
		s.ask(n) // there is no answer to a heartbeat
	}
}

// expect has a node watched that owes a word; it reports whether that is of use.
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

// seconds is what others are to hear of that is for n: everything if n is suspected, and the results of attempts of which they have
// heard heartbeats for that reason, since they hold those.
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
		to(other).Heartbeats = slices.Clip(req.Heartbeats) // of which n gets the rest: either may be added to
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

// lend notes that a node hears of attempts of another.
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

// other is a node that is not suspected, to hear what n may not; nil if there is none.
func (s *session) other(n *node) *node {
	for _, o := range s.nodes {
		if o != n && !o.leaving && !o.unanswered.suspected {
			return o
		}
	}
	return nil
}

// ask has a node say something: it answers to everybody who takes a credit back, be there one or not.
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

// spoke takes note that a node lives.
func (n *node) spoke(resp *carillon.WorkResponse) {
	if n.unanswered.asked && len(resp.Withdrawn) == 0 {
		return
	}
	clear(n.unanswered.heartbeats)
	n.unanswered = unanswered{heartbeats: n.unanswered.heartbeats}
}

// keepWatching has watch called.
func (s *session) keepWatching(after time.Duration) {
	if !s.watching {
		s.watching = true
		s.watcher.Reset(after)
	}
}

// watch asks nodes that owe a word for one, and doubts those that have been asked.
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
		default: // until there is somebody
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

// suspect has another hear what a node has been told and may not have heard; it reports whether there is one.
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

// retell gives out the results that a node has not confirmed and that are wanted, some at a time.
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

// maxRepeat is how many results are said again in one request: with the largest responses it is about as large as it may be.
const maxRepeat = maxMessage / carillon.MaxResponse

// once leaves in resp the first last word on each token of which two nodes may have heard: more may come.
func (s *session) once(n *node, resp *carillon.WorkResponse) {
	if len(s.lent) == 0 && s.settled.empty() {
		return
	}
	resp.Acks = slices.DeleteFunc(resp.Acks, s.again)
	resp.Stale = slices.DeleteFunc(resp.Stale, func(token string) bool {
		delete(n.unsure, token)
		// One that has been told the result has yet to say what became of it: n may have heard a heartbeat after it, or heard it second.
		return s.told(token) || s.again(token)
	})
}

// again reports whether the last word on a token has been said before. If not, it is now.
func (s *session) again(token string) bool {
	if s.settled.has(token) {
		delete(s.lent, token) // who was told of it since has nothing to add
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

// told reports whether a node has been told a result and not confirmed it.
func (s *session) told(token string) bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool { _, told := n.unsure[token]; return told })
}
