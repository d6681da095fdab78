package worker

import (
	"context"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/dispatch"
	"github.com/carillonhq/carillon/internal/partition"
)

// Send implements [carillon.Session]. It accepts results and heartbeats for any authentic token, whichever
// session delivered it, even if the request's credits are refused.
func (s *Session) Send(ctx context.Context, req carillon.WorkRequest) error {
	if err := ctx.Err(); err != nil {
		return ended(err)
	}
	s.mu.Lock()
	err, gone := s.err, s.goodbye
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if s.speech(&req) {
		s.spoke()
	}
	s.heartbeat(goingOn(req.Heartbeats, req.Results)) // first: stale after a result
	s.report(req.Results)
	if gone && len(req.Credits) > 0 {
		return carillon.Errorf(carillon.FailedPrecondition, "credits", "the worker has said goodbye")
	}
	for _, c := range req.Credits {
		if err := s.grant(c); err != nil {
			return err
		}
	}
	if req.Goodbye {
		s.leave()
	}
	return nil
}

func (s *Session) grant(c carillon.Credit) error {
	seat := s.subscriptions[c.Queue]
	if seat == nil {
		return carillon.Errorf(carillon.InvalidArgument, "credits.queue", "%.64q is not a queue of this session", c.Queue)
	}
	if c.N < 0 {
		s.takeBack(seat, c)
		return nil
	}
	if most := s.options.MaxCredits - seat.Outstanding(); c.N > most {
		return carillon.Errorf(carillon.ResourceExhausted, "credits.n",
			"%d credits for queue %q: with those granted and in flight they would exceed %d", c.N, c.Queue, s.options.MaxCredits)
	}
	if c.N > 0 {
		seat.Grant(c.N)
	}
	return nil
}

// takeBack takes unused credits back and answers how many.
func (s *Session) takeBack(seat *dispatch.Subscription, c carillon.Credit) {
	n := seat.TakeBack(-max(c.N, -s.options.MaxCredits))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.out.addWithdrawn(carillon.Credit{Queue: c.Queue, N: n})
		s.announce()
	}
}

// report passes results on. The session no longer holds their runs, except those that only report progress.
func (s *Session) report(results []carillon.Result) {
	if len(results) == 0 {
		return
	}
	reports := make([]partition.Report, len(results))
	var seats []*dispatch.Subscription // in the order of the results, not of a map
	type ended struct{ n, again int }
	done := map[*dispatch.Subscription]ended{}
	s.mu.Lock()
	for i, r := range results {
		reports[i] = partition.Report{Result: r, Namespace: s.namespace, Worker: s.id, From: s}
		if r.Outcome == carillon.OutcomeProgress {
			s.adopt(r.Token)
			continue
		}
		if f := s.release(r.Token); f.subscription != nil { // including a run that was to be delivered again
			e := done[f.subscription]
			if e.n == 0 {
				seats = append(seats, f.subscription)
			}
			done[f.subscription] = ended{e.n + 1, e.again + f.again}
		}
	}
	s.mu.Unlock()
	for _, seat := range seats {
		seat.Done(done[seat].n, done[seat].again)
	}
	s.sink.Reports(reports)
}

// heartbeat passes heartbeats on. An unknown token was delivered through another session: this one holds it
// from now on, within a bound, so that the worker can be told to stop it.
func (s *Session) heartbeat(bs []carillon.Heartbeat) {
	if len(bs) == 0 {
		return
	}
	s.mu.Lock()
	if s.goodbye {
		s.mu.Unlock()
		return
	}
	for _, b := range bs {
		s.adopt(b.Token)
	}
	s.mu.Unlock()
	s.sink.Heartbeats(bs, heartbeats{s})
}

// goingOn drops heartbeats of attempts that results of the same request end: the answer to the result answers
// both.
func goingOn(beats []carillon.Heartbeat, results []carillon.Result) []carillon.Heartbeat {
	if len(beats) == 0 || len(results) == 0 {
		return beats
	}
	ended := map[string]bool{}
	for i := range results {
		if results[i].Outcome != carillon.OutcomeProgress {
			ended[results[i].Token] = true
		}
	}
	var left []carillon.Heartbeat
	for _, b := range beats {
		if !ended[b.Token] {
			left = append(left, b)
		}
	}
	return left
}

// adopt makes the session hold a token that another session delivered. The lock is held.
func (s *Session) adopt(token string) {
	if s.held[token] == nil && s.adopted < s.options.MaxCredits && !s.goodbye {
		s.held[token] = &attempt{sent: true}
		s.adopted++
	}
}

// leave handles the worker's goodbye: its runs are free at once. The session stays for the answers to its
// last results.
func (s *Session) leave() {
	s.mu.Lock()
	if s.goodbye || s.err != nil {
		s.mu.Unlock()
		return
	}
	s.goodbye = true
	unsent, sent := s.drop()
	s.mu.Unlock()
	s.member.Unsubscribe()
	if len(unsent) > 0 {
		s.sink.Undelivered(unsent)
	}
	if len(sent) > 0 {
		s.sink.Lost(sent)
	}
}
