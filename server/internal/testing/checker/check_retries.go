package checker

import (
	"slices"
	"time"
)

// retryRules are about attempts after the first: S10, I11.
type retryRules struct{ *check }

// duplicates: S10, every attempt after the first has a cause between the one before and itself.
func (c retryRules) duplicates(r *run) {
	used := map[*Result]bool{}
	for i := 1; i < len(r.attempts); i++ {
		before, a := r.attempts[i-1], r.attempts[i]
		c.v.Counters.Duplicates++
		if c.justified(r, before, a, used) || c.overtaken(before, a) && c.justified(r, a, before, used) {
			continue
		}
		c.v.Counters.Unjustified++
		c.addf("S10", r.job.String(), "run %s was attempted again without a cause, %v after attempt %d", r.id,
			a.At.Sub(before.At), before.Number)
	}
}

func (c retryRules) justified(r *run, before, a *Attempt, used map[*Result]bool) bool {
	// The same attempt once more: nothing below a node may replay it, whatever becomes of its connection.
	// Only an owner hands it out again that does not know of it.
	again := before.Token == a.Token && before.Number == a.Number
	for _, res := range r.results { // one failure is the cause of one attempt
		ended := res.Kind == Failure || res.Kind == RetryAfter || res.Kind == Reschedule || res.Kind == LostWorker
		if ended && !used[res] && res.Token == before.Token && !res.Sent.After(a.At) && res.Verdict != Stale {
			used[res] = true
			if !again {
				return true
			}
			break
		}
	}
	if again {
		return c.fault(r.job, before.At.Add(-time.Second), a.At, nil)
	}
	if c.fault(r.job, before.At.Add(-time.Second), a.At, before) {
		return true
	}
	touched := slices.ContainsFunc(r.job.ops, func(o *Op) bool { // what fences, and a redrive
		return (o.fences() || o.deletes() || o.Kind == Redrive) && o.Outcome != Fail && !o.Invoke.After(a.At) &&
			(o.Outcome == Info || !o.Return.Before(c.begun(before)))
	})
	// One that came twice, as the next owner did not know of it, began when it came first.
	return touched || c.expired(r, r.attempts[r.pos[before.Token]], a)
}

// expired reports whether the lease or the time of an attempt may have been over by the next one.
func (c retryRules) expired(r *run, before, a *Attempt) bool {
	begun, wrong := c.begun(before), c.drift(r.job, before.At, a.At)
	alive := begun
	for _, b := range r.heartbeats {
		if b.Token == before.Token && !b.Stale && b.At.Before(a.At) && !c.reach.unheard(r.job, before, b, a.At) {
			if b.At.Sub(alive) >= c.lease(r.job)-wrong {
				return true // it came too late, by a clock that ran ahead
			}
			alive = later(alive, b.At)
		}
	}
	// A heartbeat may have been lost on its way: then the lease counts from the beginning. So it has to be a
	// whole one at least.
	if a.At.Sub(begun) >= c.lease(r.job)-wrong && (alive.Equal(begun) || a.At.Sub(alive) >= c.lease(r.job)/2) {
		return true
	}
	return slices.ContainsFunc(r.job.effects, func(e *effect) bool {
		return e.job != nil && e.job.Timeout > 0 && a.At.Sub(begun) >= e.job.Timeout-wrong
	})
}

// begun is when an attempt began that came then: before it came, if its way to the worker took time, but not
// by more than a run may be late altogether. Its lease counts from there.
func (w *world) begun(a *Attempt) time.Time {
	if way := a.At.Sub(a.Started); w.k.Apply > 0 && way > 0 && way <= w.k.Dispatch {
		return a.Started
	}
	return a.At
}

// retries: I11, attempts are counted and spaced as the policy says.
func (c retryRules) retries(r *run) {
	defs, fresh := c.policies(r)
	if len(defs) == 0 {
		return
	}
	most := 0
	for _, e := range defs {
		n := e.job.Policy.resolved(e.job.Schedule != "").attempts()
		if n == 0 {
			most = 0
			break
		}
		most = max(most, n)
	}
	for i, a := range r.attempts {
		// Each edit may hand out one attempt more.
		if most > 0 && !fresh && a.Number-c.uncounted(r, a) > most+len(defs)-1 {
			c.addf("I11", r.job.String(), "run %s: attempt %d, and the policy allows %d", r.id, a.Number, most)
		}
		if i > 0 && a.Token != r.attempts[i-1].Token && !c.overtaken(r.attempts[i-1], a) {
			c.spaced(r, r.attempts[i-1], a, defs)
		}
	}
}

// policies are the definitions that may have been in force during a run, also because a redrive brought back
// the one that the run carries; fresh says that its count may have begun again.
func (c retryRules) policies(r *run) (defs []*effect, fresh bool) {
	from, to := c.sent(r.first()), r.attempts[len(r.attempts)-1].At
	if r.first().Number > 1 { // the first that was seen was not the first
		from = earlier(from, r.first().Scheduled)
	}
	back := r.first().Cause != CauseSchedule && revived(r.job, time.Time{}, to)
	for _, e := range r.job.effects {
		carried := back && e.job != nil && e.job.Payload == r.first().Payload
		switch {
		case e.job == nil:
		case e.vague:
			return nil, false
		case !e.lo.After(to) && (carried || !e.until.Add(c.k.Apply+c.k.Dispatch).Before(from)):
			defs = append(defs, e)
		}
	}
	return defs, afresh(r, from, to) || redriven(r, to)
}

// uncounted is the number of the last attempt before a that asked for another time: from there on retries
// count again. One that was answered stale counts if its owner may not have learnt that it was written.
func (c retryRules) uncounted(r *run, a *Attempt) int {
	n := 0
	for _, res := range r.results {
		counts := res.Verdict != Stale || c.fault(r.job, res.Sent.Add(-lazy), res.Told, nil)
		if res.Kind == Reschedule && counts && res.Number < a.Number {
			n = max(n, res.Number)
		}
	}
	return n
}

// firstSaid is when the same was said first that a result says of its attempt, but for what was refused: an
// attempt in doubt comes again with its token, and the word of whoever speaks first counts, also if he does
// not hear so.
func firstSaid(r *run, res *Result) time.Time {
	first := res.Sent
	for _, o := range r.results {
		if o.Token == res.Token && o.Kind == res.Kind && o.Verdict != Stale {
			first = earlier(first, o.Sent)
		}
	}
	return first
}

// spaced holds the distance of two attempts against what the first one's result asked for.
func (c retryRules) spaced(r *run, before, a *Attempt, defs []*effect) {
	for _, res := range r.results {
		if res.Token != before.Token || res.Verdict != Acked || !res.Sent.Before(a.At) || !res.terminal() {
			continue
		}
		from := time.Time{}
		for i, e := range defs {
			t := e.job.Policy.resolved(e.job.Schedule != "").notBefore(firstSaid(r, res),
				before.Number-c.uncounted(r, before), e.job.Zone)
			if i == 0 || t.Before(from) {
				from = t
			}
		}
		switch {
		case res.Kind == Permanent && !redriven(r, a.At):
			c.addf("I11", r.job.String(), "run %s: attempt %d came after a failure that must not be retried", r.id,
				a.Number)
			return
		case res.Kind == Reschedule:
			from = res.To
		case res.Kind == RetryAfter:
			from = later(from, res.Sent.Add(res.After))
		case res.Kind != Failure || c.k.Virtual || r.job.dapr():
			return
		}
		if a.At.Before(from.Add(-c.drift(r.job, res.Sent, a.At))) && !redriven(r, a.At) {
			c.addf("I11", r.job.String(), "run %s: attempt %d came %v after a %s, %v too soon", r.id,
				a.Number, a.At.Sub(res.Sent), res.Kind,
				from.Sub(a.At))
		}
		return
	}
}
