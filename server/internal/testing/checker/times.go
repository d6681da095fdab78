package checker

import (
	"slices"
	"sort"
	"strings"
	"time"
)

// badTimes works out when every worker was busy, and when anything at all was wrong.
func (r *reach) badTimes() {
	r.crowds = r.full()
	r.worst = slices.Concat(r.excuses(r.all), r.crowds)
	for _, all := range r.owned {
		r.worst = append(r.worst, r.handedOver(all)...)
	}
	r.worst = merged(r.worst)
}

// excuses are the stretches in which faults excuse lateness: until all have caught up with them.
func (r *reach) excuses(faults []*Fault) []span {
	var out []span
	firsts, dues := make([]time.Time, 0, len(r.ids)), make([]time.Time, 0, len(r.ids))
	for _, id := range r.ids {
		a := r.runs[id].first()
		firsts, dues = append(firsts, a.At), append(dues, a.Scheduled)
	}
	slices.SortFunc(firsts, time.Time.Compare)
	slices.SortFunc(dues, time.Time.Compare)
	until := func(ts []time.Time, t time.Time) int {
		return sort.Search(len(ts), func(i int) bool { return ts[i].After(t) })
	}
	for _, f := range faults {
		switch {
		case f.endpoint() || f.Kind == Unserved || f.Kind == QueuePaused: // of nobody else; see down
		case f.Skew != 0:
			out = append(out, span{f.From, f.To.Add(f.Skew.Abs() + r.k.Dispatch)})
		case f.worker():
			out = append(out, span{f.From, f.To})
		case f.Minor:
			out = append(out, span{f.From, f.From.Add(r.k.OwnerLease + r.k.Dispatch)},
				span{f.To, f.To.Add(r.k.Dispatch)})
		default:
			backlog := max(until(dues, f.To)-until(firsts, f.To), 0)
			drained := time.Duration(float64(backlog) / r.k.DrainRate * float64(time.Second))
			out = append(out, span{f.From, f.To.Add(r.k.Recovery + drained)})
		}
	}
	return out
}

// down is when what a definition calls was not there, and as long after it as its retries may take.
func (w *world) down(e *effect) []span {
	var out []span
	for i := range w.h.Faults {
		f := &w.h.Faults[i]
		if f.endpoint() && slices.ContainsFunc(f.Targets,
			func(t string) bool { return strings.Contains(e.job.Queue, "//"+t+"/") }) {
			out = append(out, span{f.From, f.To.Add(w.k.Recovery)})
		}
		if (f.Kind == Unserved || f.Kind == QueuePaused) &&
			slices.Contains(f.Targets, e.op.Namespace+"/"+e.job.Queue) {
			out = append(out, span{f.From, f.To})
		}
	}
	return merged(out)
}

// full is when as many runs may have been going on as the workers take.
func (r *reach) full() []span {
	if r.k.Slots <= 0 {
		return nil
	}
	var live []span
	for _, id := range r.ids {
		for i := range r.runs[id].attempts {
			live = append(live, r.possible(r.runs[id], i))
		}
	}
	return crowded(live, r.k.Slots)
}

// crowded is when at least n of the spans overlap.
func crowded(spans []span, n int) []span {
	if n <= 0 {
		return []span{{time.Time{}, time.Unix(1<<40, 0)}}
	}
	type edge struct {
		at time.Time
		by int
	}
	edges := make([]edge, 0, 2*len(spans))
	for _, s := range spans {
		edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.by - b.by
	})
	var out []span
	live := 0
	for _, e := range edges {
		if live += e.by; e.by > 0 && live == n {
			out = append(out, span{from: e.at})
		}
		if e.by < 0 && live == n-1 {
			out[len(out)-1].to = e.at
		}
	}
	return out
}

// merged is the same stretches, sorted, those that touch made one.
func merged(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && !s.from.After(out[n-1].to) {
			out[n-1].to = later(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

// outside is what a span has outside of stretches that are sorted and do not touch.
func outside(spans []span, of span) (out []span) {
	for _, s := range spans {
		if of.from.Before(s.from) {
			out = append(out, span{of.from, s.from})
		}
		of.from = later(of.from, s.to)
	}
	if of.from.Before(of.to) {
		out = append(out, of)
	}
	return out
}

// possible is how long the i-th attempt of a run may have been in force, at most.
func (w *world) possible(r *run, i int) span {
	a := r.attempts[i]
	if i+1 < len(r.attempts) {
		return span{a.At, later(r.attempts[i+1].At, a.At)}
	}
	last := a.At
	for _, b := range r.heartbeats {
		if b.Token == a.Token {
			last = later(last, b.At)
		}
	}
	for _, res := range r.results {
		if res.Token != a.Token || res.Kind == LostWorker {
			continue
		}
		if res.terminal() && !res.Told.IsZero() {
			return span{a.At, res.Told}
		}
		last = later(last, res.Sent)
	}
	return span{a.At, last.Add(w.longestLease(r.job) + w.k.Grace)}
}

// certain is how long the i-th attempt of a run was surely in force: not beyond the first thing that may have
// ended it.
func (w *world) certain(r *run, i int) span {
	a := r.attempts[i]
	end := a.At.Add(w.lease(r.job))
	for _, res := range r.results {
		// One that was sent before is of the same attempt when it was handed out first. While it has no answer it
		// may be on its way.
		due := !res.Sent.Before(a.At) || res.Told.IsZero() || !res.Told.Before(a.At)
		if res.Token == a.Token && (res.terminal() || res.Kind == LostWorker) && due {
			end = earlier(end, later(res.Sent, a.At))
		}
	}
	if i+1 < len(r.attempts) {
		end = earlier(end, r.attempts[i+1].At)
	}
	for _, e := range r.job.effects {
		// a run that was redriven has no record of when it ended first
		if e.job != nil && e.job.Timeout > 0 && !e.lo.After(a.At) {
			end = earlier(end, a.At.Add(e.job.Timeout))
		}
	}
	for _, o := range r.job.ops {
		ends := o.defines() || o.deletes() || o.cancels() || o.Kind == Redrive || o.Kind == Skip ||
			o.Kind == BackfillCancel
		// Before a.At too, if it may have taken effect after the attempt was on its way.
		if ends && o.Outcome != Fail && (o.Outcome == Info || !o.Return.Before(a.At)) {
			end = earlier(end, later(o.Invoke, a.At))
		}
	}
	for _, f := range w.reach.faults(r.job) {
		if !f.To.Before(a.At.Add(-time.Second)) {
			end = earlier(end, later(f.From, a.At))
		}
	}
	for _, rec := range r.records {
		if !rec.Finished.IsZero() && !rec.Finished.Before(a.At) {
			end = earlier(end, rec.Finished)
		}
	}
	return span{a.At, later(end, a.At)}
}

// busyTimes are when a run of the job's schedule may have been going on, and a moment longer for the next to
// begin.
func (w *world) busyTimes(j *job) {
	for _, r := range j.runs {
		if r.first().Cause != CauseSchedule {
			continue
		}
		end := w.possible(r, len(r.attempts)-1).to
		if n := len(r.results); n > 0 && r.results[n-1].terminal() && r.results[n-1].Kind != Success &&
			r.results[n-1].Kind != Permanent {
			end = w.h.End // it may wait for an attempt that never came; unless the history knows better
		}
		for _, rec := range r.records {
			if !rec.Finished.IsZero() {
				by := rec.Finished.Add(w.wrong(j, rec.Finished, rec.Finished)) // the node's clock
				end = later(r.attempts[len(r.attempts)-1].At, by)
			}
		}
		j.busy = append(j.busy, span{r.first().At, end.Add(w.k.Dispatch)})
	}
	for _, u := range j.unseen {
		if !u.at.IsZero() {
			j.busy = append(j.busy, span{u.from, u.again.Add(w.k.Dispatch)})
		}
	}
	j.busy = merged(j.busy)
}

// The causes of runs.
const (
	CauseSchedule = "schedule"
	CauseTrigger  = "trigger"
	CauseBackfill = "backfill"
)

// deadline is when need of good time has passed since t: time outside of the given stretches.
func deadline(t time.Time, need time.Duration, bad ...[]span) time.Time {
	for {
		next := time.Time{}
		moved := false
		for _, spans := range bad {
			i := sort.Search(len(spans), func(i int) bool { return spans[i].to.After(t) })
			switch {
			case i == len(spans):
			case !spans[i].from.After(t):
				t, moved = spans[i].to, true
			case next.IsZero() || spans[i].from.Before(next):
				next = spans[i].from
			}
		}
		switch {
		case moved:
		case next.IsZero() || next.Sub(t) >= need:
			return t.Add(need)
		default:
			need -= next.Sub(t)
			t = next
		}
	}
}
