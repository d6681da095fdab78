package worker

import (
	"context"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/stream"
)

// Send implements [carillon.Session]. It accepts results and heartbeats for any authentic token, whichever
// session delivered it, even if the request's credits are refused.
func (s *Session) Send(ctx context.Context, req carillon.WorkRequest) error {
	if err := ctx.Err(); err != nil {
		return stream.ContextError(err)
	}
	s.registration.Saw()
	s.stream.Lock()
	err, leaving := s.stream.Err(), s.stream.Leaving()
	s.stream.Unlock()
	if err != nil {
		return err
	}
	if s.isSign(&req) {
		s.alive()
	}
	s.heartbeat(goingOn(req.Heartbeats, req.Results)) // first: stale after a result
	s.report(req.Results)
	if leaving && len(req.Credits) > 0 {
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
	at := s.stream.Subscription(c.Queue)
	if at == nil {
		return carillon.Errorf(carillon.InvalidArgument, "credits.queue",
			"%.64q is not a queue of this session", c.Queue)
	}
	if c.N < 0 {
		s.takeBack(at, c)
		return nil
	}
	if most := s.options.MaxCredits - at.Outstanding(); c.N > most {
		return carillon.Errorf(carillon.ResourceExhausted, "credits.n",
			"%d credits for queue %q: with those granted and in flight they would exceed %d", c.N, c.Queue,
			s.options.MaxCredits)
	}
	if c.N > 0 {
		at.Grant(c.N)
	}
	return nil
}

// takeBack takes unused credits back and answers how many.
func (s *Session) takeBack(at *dispatch.Subscription, c carillon.Credit) {
	n := at.TakeBack(-max(c.N, -s.options.MaxCredits))
	s.say(func(o *outbox) { o.addWithdrawn(carillon.Credit{Queue: c.Queue, N: n}) })
}

// report passes results on. The session no longer holds their runs, except those that only report progress.
func (s *Session) report(results []carillon.Result) {
	if len(results) == 0 {
		return
	}
	reports := make([]delivery.Report, len(results))
	s.stream.Lock()
	for i, r := range results {
		reports[i] = delivery.Report{Result: r, Namespace: s.namespace, Worker: s.id, From: s}
		if r.Outcome == carillon.OutcomeProgress {
			s.adopt(r.Token)
		} else {
			s.release(r.Token) // even if it was to be delivered again
		}
	}
	s.stream.Unlock()
	s.sink.Reports(reports)
}

// heartbeat passes heartbeats on. An unknown token was delivered through another session: this one holds it
// from now on, within a bound, so that the worker can be told to stop it.
func (s *Session) heartbeat(bs []carillon.Heartbeat) {
	if len(bs) == 0 {
		return
	}
	s.stream.Lock()
	if s.stream.Leaving() {
		s.stream.Unlock()
		return
	}
	for _, b := range bs {
		s.adopt(b.Token)
	}
	s.stream.Unlock()
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
	if s.stream.Open() && len(s.adopted) < s.options.MaxCredits && s.stream.Held(token) == nil {
		s.adopted[token] = struct{}{}
	}
}
