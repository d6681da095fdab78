package checker

import (
	"slices"
	"strings"
	"time"
)

// daprRules are about jobs of Dapr: S2, S9, S10, I11, L1, L3.
type daprRules struct{ *check }

// Jobs of Dapr go by rules of their own. An attempt has no lease: it belongs to the stream that took it, and
// when that ends it is delivered again, as the same attempt. Retries are due in virtual time. No time is
// passed over. A put that overwrites begins from the start: nothing of what it has replaced begins any more.

// DaprQueue is how Job.Queue begins of a job of Dapr: then comes the address of its queue, app/APP or
// actor/TYPE.
const DaprQueue = "dapr:"

// Unserved is the kind of a fault under which no sidecar watches for a queue at some node. Its targets are
// namespace/queue, as Job.Queue has it.
const Unserved = "worker queue unserved"

// Gate is a limit that a sidecar named, while its stream to a node surely lasted: so many attempts of a
// queue, or of its jobs with a concurrency key, may be with sidecars at a time.
type Gate struct {
	Namespace string
	Queue     string // as Job.Queue
	Key       string `json:",omitempty"` // empty: of the whole queue
	Most      int
	Node      string
	Home      int `json:",omitempty"` // which partition counts it, where the harness says which job is in which
	From, To  time.Time
}

func isDapr(j *Job) bool { return strings.HasPrefix(j.Queue, DaprQueue) }

// dapr reports whether a job is one of Dapr.
func (j *job) dapr() bool {
	return slices.ContainsFunc(j.effects, func(e *effect) bool { return e.job != nil && isDapr(e.job) })
}

// beginsAtDue reports whether the first run may be at t although that is no time of the schedule: at the due
// time of a job of Dapr.
func (e *effect) beginsAtDue(t time.Time) bool {
	if e.job == nil || !isDapr(e.job) {
		return false
	}
	return e.job.Relative && (e.op.Answer.NextRun.IsZero() || t.Equal(e.op.Answer.NextRun)) || t.Equal(e.job.Due)
}

// streamed judges a run of a job of Dapr.
func (c daprRules) streamed(r *run) {
	for i, a := range r.attempts {
		if i > 0 {
			c.deliveredAgain(r, r.attempts[i-1], a)
		}
		c.virtual(r, a)
		c.continues(r, i)
	}
	c.incarnation(r)
}

// deliveredAgain: S10, an attempt is delivered again only if its stream ended, or its owner did, and uses no
// attempt then; the next one comes after a failure that a sidecar reported.
func (c daprRules) deliveredAgain(r *run, before, a *Attempt) {
	c.v.Counters.Duplicates++
	said := func(kind ResultKind, by *Attempt) bool {
		return slices.ContainsFunc(r.results, func(res *Result) bool {
			return res.Kind == kind && res.Number == by.Number && !res.Sent.After(a.At) &&
				(kind == Failure || res.Token == by.Token && !res.Sent.Before(by.At))
		})
	}
	wrong := ""
	switch {
	case a.Number == before.Number && !said(LostWorker, before) &&
		!c.fault(r.job, before.At.Add(-time.Second), a.At, nil):
		wrong = "was delivered again, and its stream lasted"
	case a.Number == before.Number+1 && !said(Failure, before):
		wrong = "came, and nobody had said that the one before it failed"
	case a.Number > before.Number+1 || a.Number < before.Number:
		wrong = "does not follow the one before it"
	}
	if wrong != "" {
		c.v.Counters.Unjustified++
		c.addf("S10", r.job.String(), "run %s: attempt %d %s, %v after attempt %d", r.id, a.Number, wrong,
			a.At.Sub(before.At), before.Number)
	}
}

// virtual: I11, no attempt comes before its virtual time.
func (c daprRules) virtual(r *run, a *Attempt) {
	first, known := time.Duration(0), false
	for _, e := range r.job.effects {
		if e.job == nil || e.job.Payload != a.Payload {
			continue
		}
		d := time.Duration(a.Number-1) * e.job.Policy.resolved(e.job.Schedule != "").Interval
		if !known || d < first {
			first, known = d, true
		}
	}
	if due := a.Scheduled.Add(first); known && !c.showed(r.job, due, a.At) {
		c.addf("I11", r.job.String(), "run %s: attempt %d came %v before its virtual time", r.id, a.Number, due.Sub(a.At))
	}
}

// continues: L1 and L3, what a stream gave back is delivered again at once, and what failed at its virtual
// time.
func (c daprRules) continues(r *run, i int) {
	a := r.attempts[i]
	def, ok := definition(r, a)
	if !ok {
		return
	}
	since, why := c.endOf(r, a, def)
	if why == "" {
		return
	}
	by := deadline(since, c.k.Dispatch, c.reach.bad(r.job), c.down(def), c.gated(r.job.namespace, def.job))
	if c.movedSince(r.job, a.At, by) && c.speechless(a.Node, since, by) {
		by = deadline(later(since, a.At).Add(c.k.Kept), c.k.Dispatch, c.reach.bad(r.job), c.down(def),
			c.gated(r.job.namespace, def.job))
	}
	touched := c.asked(r.job, a.At.Add(-c.k.Dispatch), by,
		func(o *Op) bool { return o.defines() || o.deletes() })
	ended := why != failed && slices.ContainsFunc(r.records,
		func(f FinalRun) bool { return f.Status == "succeeded" })
	switch {
	case touched || !by.Before(c.h.End):
	case i+1 < len(r.attempts):
		if next := r.attempts[i+1]; next.At.After(by) {
			c.addf("L1", r.job.String(), "run %s: attempt %d came %v after %s, %v after the latest that can be excused",
				r.id, next.Number, next.At.Sub(since), why, next.At.Sub(by))
		}
	case !ended:
		c.addf("L3", r.job.String(), "run %s: %s at %s, and nobody has had it since", r.id, why, c.show(since))
	}
}

// failed is why an attempt ended that is followed by another one.
const failed = "its failure"

// endOf is when an attempt ended so that its run had to go on, or became due again, and why; "" = it did not.
func (c daprRules) endOf(r *run, a *Attempt, def *effect) (since time.Time, why string) {
	most := def.job.Policy.resolved(def.job.Schedule != "").attempts()
	for _, res := range r.results {
		if res.Token != a.Token || res.Sent.Before(a.At) {
			continue
		}
		switch {
		case res.Kind == Failure && res.Verdict == Acked && (most == 0 || a.Number < most):
			due := a.Scheduled.Add(time.Duration(a.Number) * def.job.Policy.resolved(def.job.Schedule != "").Interval)
			return later(due.Add(c.wrong(r.job, due, due)), res.Told), failed
		case res.Kind == LostWorker:
			return res.Sent, "the end of its stream"
		}
		return since, ""
	}
	return since, ""
}

// definition is the one definition with the payload of an attempt.
func definition(r *run, a *Attempt) (def *effect, ok bool) {
	for _, e := range r.job.effects {
		if e.job != nil && !e.vague && e.job.Payload == a.Payload {
			def, ok = e, def == nil
		}
	}
	return def, ok
}

// speechless reports whether a node may not have been able to tell the owner of a partition that a stream had
// ended, between two instants: a node that leaves in order can.
func (c daprRules) speechless(node string, from, to time.Time) bool {
	return slices.ContainsFunc(c.reach.all, func(f *Fault) bool {
		return !f.worker() && (f.Skew != 0 || !f.local() || f.between() || f.hits(node)) &&
			!f.From.After(to) && !f.To.Before(from.Add(-c.k.OwnerLease))
	})
}

// movedSince reports whether a job's partition may have changed hands between two instants.
func (c daprRules) movedSince(j *job, from, to time.Time) bool {
	home, known := c.h.Homes[j.String()]
	return known && slices.ContainsFunc(c.reach.owned[home], func(t term) bool {
		return !t.claimed.Before(from.Add(-time.Second)) && !t.from.After(to)
	})
}

// incarnation: S2, once a put has begun from the start, or a delete has ended what was there, no run of the
// job of before begins or goes on.
func (c daprRules) incarnation(r *run) {
	for _, a := range r.attempts {
		if a.UID == "" {
			continue
		}
		born := slices.IndexFunc(r.job.effects,
			func(e *effect) bool { return e.op.defines() && e.op.Answer.UID == a.UID })
		if born < 0 {
			if !slices.ContainsFunc(r.job.effects, func(e *effect) bool {
				return e.op.defines() && e.op.Outcome == Info && !e.lo.After(a.At)
			}) {
				c.addf("S2", r.job.String(), "attempt %d of run %s is of a job that nobody put", a.Number, r.id)
			}
			continue
		}
		for _, e := range r.job.effects {
			ends := e.op.Replace || e.op.deletes()
			if ends && e.sure && e.after(r.job.effects[born]) && e.hi.Add(c.k.Apply).Before(c.sent(a)) {
				c.addf("S2", r.job.String(), "attempt %d of run %s began at %s, after the %s at %s had ended its job",
					a.Number, r.id, c.show(a.At), e.op.Kind, c.show(e.lo))
				return
			}
		}
	}
}

// counts reports whether an attempt has been used up: one whose stream ended, or whose owner did, has not.
func counts(r *run, a *Attempt) bool {
	return slices.ContainsFunc(r.results, func(res *Result) bool {
		return res.Token == a.Token && res.terminal() && res.Verdict == Acked
	})
}

// stayed reports whether an attempt stayed with its stream when its owner gave the partition up in order:
// what waits there for a sidecar is in force, whoever owns the partition.
func (w *world) stayed(a *Attempt) bool {
	return slices.ContainsFunc(w.reach.owned[a.Partition],
		func(t term) bool { return t.epoch == a.Epoch && t.gaveUp() })
}

// withSidecar is how long an attempt was with the sidecar that took it: until its result, which says how it
// ended, or that its stream did.
func (w *world) withSidecar(r *run, a *Attempt) (s span, result *Result) {
	for _, res := range r.results {
		if res.Token == a.Token && !res.Sent.Before(a.At) && (res.terminal() || res.Kind == LostWorker) {
			return span{a.At, res.Sent}, res
		}
	}
	return span{a.At, w.h.End}, nil
}

// limitedFor is when an attempt certainly counts for a limit that it is under: while it is with its sidecar
// and in force. What its node has taken back counts no more, though a sidecar cannot be told to stop: for
// another attempt, since its job has gone or begun from the start, or for a fault of those that take part in
// it. Whether it was taken back for a fault is not known, unless its result was taken afterwards.
func (c daprRules) limitedFor(r *run, i, home int) []span {
	a := r.attempts[i]
	s, result := c.withSidecar(r, a)
	ends := func(t time.Time) { s.to = earlier(s.to, later(t, s.from)) }
	if i+1 < len(r.attempts) {
		ends(r.attempts[i+1].At)
	}
	for _, e := range r.job.effects {
		if (e.op.Replace || e.op.deletes()) && !e.hi.Before(a.At) {
			ends(e.lo)
		}
	}
	for _, t := range c.reach.owned[a.Partition] {
		if t.epoch > a.Epoch && !c.stayed(a) {
			ends(t.from)
		}
	}
	wrong := common(c.troubles(r.job, a.Node, home), s)
	if len(wrong) > 0 && (result == nil || result.Verdict != Acked || result.Sent.After(s.to)) {
		ends(wrong[0].from)
	}
	return outside(wrong, s)
}

// troubles are the stretches in which faults may have touched the owner of a job's partition, the node that
// has its run, or the owner of the partition that counts a limit.
func (c daprRules) troubles(j *job, node string, home int) []span {
	at := troubled{node: node, job: -1, limit: -1}
	if p, known := c.h.Homes[j.String()]; known && c.reach.owned[p] != nil && c.reach.owned[home] != nil {
		at.job, at.limit = p, home
	}
	if out, ok := c.troubled[at]; ok {
		return out
	}
	var out []span
	for _, f := range c.reach.all {
		switch {
		case f.worker():
		case !f.local() || f.between() || at.job < 0 || f.hits(node):
			out = append(out, span{f.From, f.To})
		default:
			out = slices.Concat(out, c.reach.touched(f, at.job), c.reach.touched(f, at.limit))
		}
	}
	out = merged(out)
	c.troubled[at] = out
	return out
}

// troubled is what a fault may have to do with an attempt under a limit: a node and two partitions; -1 = any.
type troubled struct {
	node       string
	job, limit int
}

// limitedAtMost is how long an attempt may count for the limits that it is under: while it is with its
// sidecar, and if its stream has ended, until its owner has learned of that and has taken it back.
func (w *world) limitedAtMost(r *run, i int) span {
	a := r.attempts[i]
	s, _ := w.withSidecar(r, a)
	answered := slices.ContainsFunc(r.results,
		func(res *Result) bool { return res.Token == a.Token && res.terminal() && res.Verdict == Acked })
	if answered {
		return s
	}
	s.to = w.h.End
	if i+1 < len(r.attempts) {
		s.to = later(s.from, r.attempts[i+1].At)
	}
	return s
}

// held are the attempts of the jobs that a limit is for, by their beginning, and when they count, as counts
// says.
func (w *world) held(namespace, queue, name string, counts func(r *run, i int) []span) (out []lease) {
	for _, k := range w.keys {
		j := w.jobs[k]
		if k.namespace != namespace || !j.dapr() {
			continue
		}
		for _, r := range j.runs {
			for i, a := range r.attempts {
				def, ok := definition(r, a)
				if !ok || def.job.Queue != queue || name != "" && def.job.ConcurrencyKey != name {
					continue
				}
				for _, s := range counts(r, i) {
					out = append(out, lease{s, r, i})
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b lease) int { return a.from.Compare(b.from) })
	return out
}

// gates: S9, no more attempts are in force at sidecars than a limit says that one of them names: at one node,
// or over all of them (Constants.OneGate).
func (c daprRules) gates() {
	type limit struct {
		namespace, queue, name, node string
		home                         int
	}
	most, named := map[limit]int{}, map[limit][]span{}
	var order []limit
	for _, g := range c.h.Gates {
		l := limit{g.Namespace, g.Queue, g.Key, g.Node, g.Home}
		if c.k.OneGate {
			l.node = ""
		}
		if named[l] == nil {
			order = append(order, l)
		}
		most[l] = max(most[l], g.Most)
		named[l] = append(named[l], span{g.From, g.To})
	}
	for _, l := range order {
		in := merged(named[l])
		surely := func(r *run, i int) []span { return c.limitedFor(r, i, l.home) }
		var ends []time.Time
		for _, h := range c.held(l.namespace, l.queue, l.name, surely) {
			if l.node != "" && h.run.attempts[h.i].Node != l.node {
				continue
			}
			ends = append(slices.DeleteFunc(ends, func(t time.Time) bool { return !t.After(h.from) }), h.to)
			if len(ends) > most[l] && within(in, h.from.Add(-1)) {
				c.addf("S9", l.namespace+"/"+l.queue, "%d attempts %s are with sidecars of %s at %s, and the limit is %d",
					len(ends), l.name, l.node, c.show(h.from), most[l])
				break
			}
		}
	}
}

// gated is when as many attempts may have been with sidecars as some limit says that a job is under.
func (w *world) gated(namespace string, s *Job) (out []span) {
	for _, name := range []string{"", s.ConcurrencyKey} {
		most := 0
		for _, g := range w.h.Gates {
			if g.Namespace == namespace && g.Queue == s.Queue && g.Key == name && (most == 0 || g.Most < most) {
				most = g.Most
			}
		}
		if most == 0 {
			continue
		}
		k := gateKey{namespace, s.Queue, name}
		if w.crammed[k] == nil {
			var all []span
			atMost := func(r *run, i int) []span { return []span{w.limitedAtMost(r, i)} }
			for _, h := range w.held(namespace, s.Queue, name, atMost) {
				all = append(all, span{h.from, h.to.Add(w.k.Dispatch)})
			}
			w.crammed[k] = append([]span{}, crowded(all, most)...)
		}
		out = append(out, w.crammed[k]...)
	}
	return merged(out)
}

// gateKey names a limit.
type gateKey struct{ namespace, queue, name string }
