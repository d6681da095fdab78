package deliveries

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Violation is a broken rule.
type Violation struct {
	Rule string
	Job  string
	What string
}

// String is the violation in a line.
func (v Violation) String() string { return strings.TrimSpace(v.Rule + " " + v.Job + ": " + v.What) }

// Audit matches what receivers saw with what the system says, both ways.
func Audit(l Ledger, h History) []Violation {
	a := newAudit(l, h)
	for _, id := range a.ids {
		a.run(a.runs[id])
	}
	a.everyJob()
	a.stopped()
	slices.SortStableFunc(a.found, func(x, y Violation) int {
		return cmp.Or(strings.Compare(x.Rule, y.Rule), strings.Compare(x.Job, y.Job))
	})
	return a.found
}

// audit is one call of Audit.
type audit struct {
	l       Ledger
	h       History
	runs    map[string]*run
	ids     []string // of runs, in the order in which they were met
	jobs    map[string]Job
	touches map[string][]Touch
	skips   map[string][]Run // stretches that did not run, by life
	found   []Violation
}

// run is all that is known of one run.
type run struct {
	id     string
	job    string
	seen   []Delivery // in order of time
	record *Run       // nil: the history has none
}

func newAudit(l Ledger, h History) *audit {
	a := &audit{l: l, h: h, runs: map[string]*run{}, jobs: map[string]Job{}, touches: map[string][]Touch{},
		skips: map[string][]Run{}}
	of := func(id, job string) *run {
		if a.runs[id] == nil {
			a.runs[id] = &run{id: id, job: job}
			a.ids = append(a.ids, id)
		}
		return a.runs[id]
	}
	for _, d := range l.Seen {
		r := of(d.Run, d.Job)
		r.seen = append(r.seen, d)
	}
	for i := range h.Runs {
		x := &h.Runs[i]
		if x.Skipped > 0 {
			a.skips[x.Life] = append(a.skips[x.Life], *x)
			continue
		}
		of(x.ID, x.Job).record = x
	}
	for _, r := range a.runs {
		slices.SortStableFunc(r.seen, func(x, y Delivery) int { return x.At.Compare(y.At) })
	}
	for _, j := range h.Jobs {
		a.jobs[j.Name] = j
	}
	for _, t := range h.Touches {
		a.touches[t.Job] = append(a.touches[t.Job], t)
	}
	return a
}

func (a *audit) addf(rule, job, format string, args ...any) {
	a.found = append(a.found, Violation{rule, job, fmt.Sprintf(format, args...)})
}

// run asks everything about one run.
func (a *audit) run(r *run) {
	if len(r.seen) > 0 {
		a.known(r)
		a.once(r)
		a.kept(r)
		a.adopted(r)
	}
	if r.record != nil {
		a.claimed(r)
	}
}

// known: a run that was seen is in the history, as one that ran, with at least the attempts that were seen.
func (a *audit) known(r *run) {
	first, most := r.seen[0], slices.MaxFunc(r.seen, func(x, y Delivery) int { return x.Attempt - y.Attempt })
	switch rec := r.record; {
	case rec == nil:
		if !a.mayForget(first) {
			a.addf("denied", r.job, "run %s was delivered at %s, and the history does not know it", r.id,
				clock(first.At))
		}
	case rec.Status == "skipped":
		if !a.mayForget(first) {
			a.addf("skipped", r.job, "run %s was delivered at %s%s, and is recorded as skipped (%s)", r.id,
				clock(first.At), said(first), rec.Reason)
		}
	case rec.Attempt < most.Attempt:
		if !a.mayForget(most) {
			a.addf("count", r.job, "attempt %d of run %s was delivered at %s, and the history has %d",
				most.Attempt, r.id, clock(most.At),
				rec.Attempt)
		}
	}
	for _, x := range a.skips[first.Life] {
		in := first.Cause == "schedule" && !first.Scheduled.Before(x.From) &&
			!first.Scheduled.After(x.Scheduled)
		if in && x.Job == r.job && !a.touched(r.job, x.From, x.Finished) {
			a.addf("skipped", r.job,
				"run %s was delivered at %s%s, and its time is one of %d that are recorded as skipped (%s)",
				r.id,
				clock(first.At), said(first), x.Skipped, x.Reason)
		}
	}
}

// mayForget reports whether a delivery need not have left a trace: its owner ended without order, before it
// was durable or could know that it was, and the job was changed before the run could be delivered again.
func (a *audit) mayForget(d Delivery) bool {
	return slices.ContainsFunc(a.h.Breaks, func(b Break) bool {
		return b.Ends && !d.At.Before(b.From.Add(-a.h.Slack.Lazy)) && !d.At.After(b.To.Add(a.h.Slack.Wire)) &&
			a.touched(d.Job, b.From.Add(-a.h.Slack.Lazy), b.To.Add(a.h.Slack.Recovery))
	})
}

// touched reports whether a call may have changed a job in a stretch of time.
func (a *audit) touched(job string, from, to time.Time) bool {
	return slices.ContainsFunc(a.touches[job], func(t Touch) bool {
		return !t.From.After(to) &&
			!t.To.Before(from)
	})
}

// broken reports whether something was wrong in a stretch of time.
func (a *audit) broken(from, to time.Time, ends bool) bool {
	return slices.ContainsFunc(a.h.Breaks, func(b Break) bool {
		return (b.Ends || !ends) && b.meets(from, to, a.h.Slack.Wire)
	})
}

// meets reports whether a break was in a stretch of time, or was seen in it.
func (b *Break) meets(from, to time.Time, wire time.Duration) bool {
	return !b.From.After(to) && !b.To.Add(wire).Before(from)
}

// once: an attempt is on the wire once, unless its owner ended without order after it came; again it has the
// same token.
func (a *audit) once(r *run) {
	last := map[int]Delivery{}
	for _, d := range r.seen {
		before, again := last[d.Attempt]
		last[d.Attempt] = d
		if !again {
			continue
		}
		if !a.broken(before.At, d.At, true) {
			a.addf("twice", r.job,
				"attempt %d of run %s came again %v after %s, and its owner had not ended (%s, %s)",
				d.Attempt, r.id,
				d.At.Sub(before.At).Round(time.Millisecond), clock(before.At), from(before), from(d))
		}
		if d.Token != before.Token {
			a.addf("token", r.job, "attempt %d of run %s came again, at %s, with another token", d.Attempt,
				r.id, clock(d.At))
		}
	}
}

// kept: a success stays one. What was acknowledged on a stream has no excuse; an answer to a request may be
// lost with its owner.
func (a *audit) kept(r *run) {
	for _, d := range r.seen {
		for _, w := range d.words() {
			if w.Answer == Success && !a.keeps(r, &d, &w) {
				return
			}
		}
	}
}

// keeps judges one answer that is a success; it reports whether that is in order.
func (a *audit) keeps(r *run, d *Delivery, w *Word) bool {
	switch {
	case w.Reply == Acked && (r.record == nil || r.record.Status != "succeeded"):
		a.addf("success", r.job,
			"the success of attempt %d of run %s was acknowledged at %s, and the history has it as %s",
			d.Attempt, r.id, clock(w.Replied), status(r.record))
		return false
	case !d.Stream && r.record != nil && r.record.Status != "succeeded" && r.record.Status != "skipped" &&
		!a.mayBeLost(r, d, w):
		a.addf("success", r.job,
			"attempt %d of run %s was answered with success at %s, and the history has it as %s (%s)",
			d.Attempt, r.id, clock(w.Answered), status(r.record), r.record.Reason)
		return false
	}
	return true
}

// mayBeLost reports whether a success may not have reached whoever waited for it, or did not count any more:
// it was late, there was another attempt, the run was ended by a call or by the next time of the job, or
// something was wrong.
func (a *audit) mayBeLost(r *run, d *Delivery, w *Word) bool {
	until := w.Answered.Add(a.h.Slack.Lazy)
	late := d.Timeout == 0 || w.Answered.Sub(earliest(d.Started, d.At)) > d.Timeout/2
	other := slices.ContainsFunc(r.seen, func(x Delivery) bool {
		return x.Attempt != d.Attempt ||
			x.Token != d.Token
	})
	return late || other || r.record.Attempt > d.Attempt || a.jobs[d.Job].Overlap == "replace" ||
		a.touched(d.Job, d.At.Add(-a.h.Slack.Wire), until) || a.broken(d.At.Add(-a.h.Slack.Wire), until,
		false) ||
		a.lost(d.Stream, d.At, until)
}

// lost reports whether something on its way may have been lost in a stretch of time.
func (a *audit) lost(stream bool, from, to time.Time) bool {
	return slices.ContainsFunc(a.l.Losses, func(x Loss) bool {
		return x.Stream == stream && !x.From.After(to) && !x.To.Add(a.h.Slack.Wire).Before(from)
	})
}

// adopted: a result of the attempt in force is not stale, whatever happened to the owner since it handed it
// out, unless it was held up until the lease had ended.
func (a *audit) adopted(r *run) {
	if r.record == nil || a.jobs[r.job].Overlap == "replace" {
		return
	}
	for _, d := range r.seen {
		handed := earliest(d.Started, d.At)
		for _, w := range d.words() {
			if w.Reply == Stale && w.Answered.Sub(handed) <= d.Lease/2 && !a.overtaken(r, &d, &w) &&
				!a.heldUp(r, &d, &w) && !a.touched(d.Job, handed.Add(-a.h.Slack.Wire), w.Replied) {
				a.addf("refused", r.job,
					"attempt %d of run %s, handed out at %s, answered at %s with %s, is told to be stale",
					d.Attempt, r.id, clock(handed), clock(w.Answered), w.Answer)
			}
		}
	}
}

// heldUp reports whether an answer may have been kept on its way until the lease had ended: by a link that
// had been cut when it left and still was when the lease ended, or so by a halted node that is not the owner,
// or not any more: the attempt came again from another. The reply did not come before that. A halted owner
// hears what has arrived before it ends a lease.
func (a *audit) heldUp(r *run, d *Delivery, w *Word) bool {
	owner, end := d.Node, earliest(d.Started, d.At).Add(d.Lease)
	for i := range r.seen {
		x := &r.seen[i]
		if again := earliest(x.Started, x.At); x.Attempt == d.Attempt && again.Add(x.Lease).After(end) &&
			again.Before(w.Replied) {
			owner, end = x.Node, again.Add(x.Lease)
		}
	}
	return w.Replied.After(end) && slices.ContainsFunc(a.h.Breaks, func(b Break) bool {
		return b.Holds && (b.Node == "" || b.Node != owner) && !b.From.After(w.Answered.Add(a.h.Slack.Wire)) &&
			b.To.Add(a.h.Slack.Wire).After(end)
	})
}

// overtaken reports whether an answer may not have counted because another did: there is a later attempt, or
// the same one was answered otherwise, or with another failure. A success that is said twice is one success.
func (a *audit) overtaken(r *run, d *Delivery, w *Word) bool {
	return r.record.Attempt > d.Attempt || slices.ContainsFunc(r.seen, func(x Delivery) bool {
		return x.Attempt > d.Attempt || x.Attempt == d.Attempt && (x.Token != d.Token ||
			slices.ContainsFunc(x.words(), func(o Word) bool {
				return o.Answer != w.Answer || w.Answer == Failure && !o.Answered.Equal(w.Answered)
			}))
	})
}

// claimed: what the history says of a run was seen by somebody.
func (a *audit) claimed(r *run) {
	rec := r.record
	if rec.Status == "succeeded" && !slices.ContainsFunc(r.seen,
		func(d Delivery) bool { return d.answers(Success) && d.Attempt == rec.Attempt }) {
		a.addf("nobody", r.job, "run %s is recorded as succeeded with attempt %d, and nobody answered so",
			r.id, rec.Attempt)
	}
	for n := 1; n <= rec.Attempt; n++ {
		if !slices.ContainsFunc(r.seen, func(d Delivery) bool { return d.Attempt == n }) {
			a.unseen(r, n)
		}
	}
}

// unseen judges an attempt that the history claims and nobody saw: it failed, and something was lost at that
// time; or it was the last and its run was cancelled before it could leave.
func (a *audit) unseen(r *run, n int) {
	rec := r.record
	i := slices.IndexFunc(rec.Errors, func(e AttemptError) bool { return e.Attempt == n })
	switch {
	case i < 0 && n == rec.Attempt && rec.Status == "cancelled":
	case i < 0 && n < rec.Attempt && a.touched(r.job, rec.Scheduled.Add(-a.h.Slack.Wire),
		rec.Finished): // fenced
	case i < 0 && rec.Status == "cancelled" && a.inDoubt(r):
	case i < 0 && len(rec.Errors) >= a.h.Slack.Errors && n < rec.Errors[0].Attempt: // it kept the newest
	case i < 0 && rec.Status == "succeeded" && n == rec.Attempt: // see claimed
	case i < 0:
		a.addf("unseen", r.job,
			"the history has attempt %d of run %s, which nobody saw, and no error that says why", n, r.id)
	default:
		e := rec.Errors[i]
		since := e.At.Add(-a.h.Slack.Recovery)
		if !a.broken(since, e.At, false) && !a.lost(true, since, e.At) && !a.lost(false, since, e.At) {
			a.addf("unseen", r.job,
				"the history has attempt %d of run %s, which nobody saw: %s at %s, when nothing was wrong", n,
				r.id, e.Message,
				clock(e.At))
		}
	}
}

// inDoubt reports whether all attempts of a run that nobody saw, but the last, are in doubt, as the history
// itself says: such an attempt counts as made if the run ends before it is made again. There is doubt only
// where an owner ended without order.
func (a *audit) inDoubt(r *run) bool {
	unseen := -1
	for n := 1; n <= r.record.Attempt; n++ {
		if !slices.ContainsFunc(r.seen, func(d Delivery) bool { return d.Attempt == n }) {
			unseen++
		}
	}
	return unseen <= r.record.InDoubt && a.broken(r.record.Scheduled.Add(-a.h.Slack.Recovery),
		r.record.Finished, true)
}

// clock is a time as it stands in a violation.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

func status(r *Run) string {
	if r == nil {
		return "nothing"
	}
	return r.Status
}

// said is what a receiver answered, for people.
func said(d Delivery) string {
	if d.Answer == NoAnswer {
		return ""
	}
	return ", answered with " + string(d.Answer)
}

// from is where a delivery came, for people.
func from(d Delivery) string { return strings.TrimSpace(d.Receiver + " " + d.Conn) }

// earliest is the earlier of two times, of which the first may be zero.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || a.After(b) {
		return b
	}
	return a
}
