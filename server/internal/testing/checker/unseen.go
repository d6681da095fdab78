package checker

import (
	"cmp"
	"slices"
	"time"
)

// An attempt that is durable before it is handed out may be in the store and with nobody: its owner ended
// before it had heard that it was written. Whoever owns the partition then cannot know that, since the owner
// before may have handed it out with its last breath; so its run waits until the attempt is over. What is
// excused so is told from the store's writes: the grant is in the last batch that its owner wrote in the
// partition, it was committed while something was wrong with that owner, another life owned the partition
// next, and no worker saw the attempt. An owner that writes once more has heard of the batch before, and one
// that claims its partition again knows what it never handed out: neither has an excuse.

// unseen is an attempt that was in force, and that nobody had.
type unseen struct {
	span            // it may have been in force, and held a permit
	again time.Time // its run may have waited until then to be tried again
	run   string
	at    time.Time // when the schedule meant it; zero = it is none of the schedule
}

// attemptNumber names an attempt as the store's writes do.
type attemptNumber struct {
	run string
	n   int
}

// termOf is a partition under one of its terms.
type termOf struct {
	partition int
	epoch     uint64
}

// indexUnseen finds the attempts that nobody had.
func (w *world) indexUnseen() {
	seen, last := map[attemptNumber]bool{}, map[termOf]time.Time{}
	for i := range w.h.Attempts {
		a := &w.h.Attempts[i]
		seen[attemptNumber{a.RunID, a.Number}] = true
	}
	for i := range w.h.Writes {
		x := &w.h.Writes[i]
		in := termOf{x.Partition, x.Epoch}
		last[in] = later(last[in], x.At)
	}
	for i := range w.h.Writes {
		x := &w.h.Writes[i]
		if x.To != "granted" || x.Refused || w.lapses.wentBack(x.At) != nil || x.Attempt == 0 ||
			seen[attemptNumber{x.RunID, x.Attempt}] ||
			x.At.Before(last[termOf{x.Partition, x.Epoch}]) || !w.amiss(x) {
			continue
		}
		if next, ok := w.next(x); ok && next.node != x.Node {
			w.noteUnseen(x, next)
		}
	}
}

// amiss reports whether something was wrong with the owner when a write of it was committed.
func (w *world) amiss(x *Write) bool {
	return slices.ContainsFunc(w.reach.all, func(f *Fault) bool {
		return !f.worker() && f.Skew == 0 && (!f.local() || f.hits(x.Node)) && !f.From.After(x.At) &&
			!f.To.Before(x.At)
	})
}

// next is the term after that of a write.
func (w *world) next(x *Write) (term, bool) {
	all := w.reach.owned[x.Partition]
	i := slices.IndexFunc(all, func(t term) bool { return t.epoch > x.Epoch })
	if i < 0 {
		return term{}, false
	}
	return all[i], true
}

// noteUnseen adds an attempt that nobody had to its job.
func (w *world) noteUnseen(x *Write, next term) {
	j, at := w.origin(x.RunID)
	if j == nil {
		return // nothing is known of it that could be late
	}
	u := unseen{span: span{x.At, x.At}, again: x.At, run: x.RunID, at: at}
	for _, e := range j.effects {
		if e.job == nil || e.lo.After(next.claimed) || e.until.Before(x.At) {
			continue
		}
		over := next.claimed.Add(cmp.Or(e.job.Lease, w.k.Lease)) // the new owner waits for a sign of life
		if e.job.Timeout > 0 {
			over = earlier(over, x.At.Add(e.job.Timeout))
		}
		over = over.Add(w.k.Grace)
		p := e.job.Policy.resolved(e.job.Schedule != "")
		u.to, u.again = later(u.to, over), later(u.again, p.notBefore(over, x.Attempt, e.job.Zone).Add(p.Jitter))
	}
	j.unseen = append(j.unseen, u)
}

// origin is the job of a run, and when the schedule meant it; zero if something else did.
func (w *world) origin(id string) (j *job, at time.Time) {
	if r := w.runs[id]; r != nil {
		if r.first().Cause == CauseSchedule {
			at = r.first().Scheduled
		}
		return r.job, at
	}
	for i := range w.h.Final.Runs {
		f := &w.h.Final.Runs[i]
		if f.RunID != id || f.Skipped > 0 {
			continue
		}
		if f.Cause == CauseSchedule || f.Cause == "" {
			at = f.Scheduled
		}
		return w.job(f.Namespace, f.Job), at
	}
	return nil, at
}

// unseenOf is for how long the run that the schedule meant for t waited for an attempt that nobody had.
func (j *job) unseenOf(t time.Time) []span {
	var out []span
	for _, u := range j.unseen {
		if u.at.Equal(t) {
			out = append(out, span{u.from, u.again})
		}
	}
	return merged(out)
}
