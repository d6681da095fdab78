package checker

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"
)

// key names a job.
type key struct{ namespace, name string }

func (k key) String() string { return k.namespace + "/" + k.name }

// world is a history, indexed.
type world struct {
	h    *History
	k    Constants // with defaults
	jobs map[key]*job
	keys []key // sorted
	runs map[string]*run
	ids  []string // sorted

	reach   *reach
	lapses  *lapses
	scarce  map[key][]span     // when the tokens of a concurrency key may have been taken; see taken
	crammed map[gateKey][]span // see gated
	rations map[key][]span     // see rationed
}

// span is a stretch of time, its end exclusive.
type span struct{ from, to time.Time }

// job is everything known of one name.
type job struct {
	key
	ops     []*Op     // all of it, by call
	effects []*effect // of the operations that changed it or may have, by the earliest moment
	runs    []*run    // by first attempt
	records []FinalRun
	ended   map[time.Time]bool // scheduled times (UTC) of the records of runs of the schedule
	passed  []span             // stretches of records of times that did not run, sorted, both ends inclusive
	known   map[string]bool    // run ids in the records
	final   *FinalJob
	busy    []span // when a run of the schedule was going on, as far as is possible
	sorted  []*run // by scheduled time; see byTime
	wins    []span // when runs succeeded; see winsOf
	unseen  []unseen
}

// effect is an operation that changed a job, or may have, some time from lo to hi.
type effect struct {
	op     *Op
	lo, hi time.Time
	sure   bool      // it did
	job    *Job      // of a put, batch or patch: what the job then was
	vague  bool      // what the job then was is not known for certain
	sched  *schedule // of job; nil for a one-shot, or if the oracle does not know it
	alien  bool      // the oracle does not know the schedule
	until  time.Time // the latest moment at which job may be current
	undone *Fault    // the store surely went back to before it
	timed  time.Time // the same for its times: a definition that does not touch them keeps their phase
}

// run is the attempts and results of one run id.
type run struct {
	id         string
	job        *job
	attempts   []*Attempt // by time
	results    []*Result  // by time sent
	heartbeats []*Heartbeat
	records    []FinalRun
	pos        map[string]int // token → place of its first attempt
}

func (r *run) first() *Attempt { return r.attempts[0] }

// index reads a history once.
func index(h *History) *world {
	w := &world{h: h, k: h.Constants.withDefaults(), jobs: map[key]*job{}, runs: map[string]*run{},
		scarce: map[key][]span{}, crammed: map[gateKey][]span{},
		rations: map[key][]span{}}
	w.reach, w.lapses = &reach{world: w, badAt: map[int][]span{}}, &lapses{world: w}
	w.lapses.losses()
	w.indexOps()
	w.indexRuns()
	for k, j := range w.jobs {
		w.keys = append(w.keys, k)
		slices.SortStableFunc(j.ops, func(a, b *Op) int { return a.Invoke.Compare(b.Invoke) })
		slices.SortStableFunc(j.runs, func(a, b *run) int { return a.first().At.Compare(b.first().At) })
	}
	slices.SortFunc(w.keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace),
			cmp.Compare(a.name, b.name))
	})
	for _, k := range w.keys {
		w.jobs[k].effects = w.effectsOf(w.jobs[k])
	}
	w.reach.find()
	w.indexUnseen()
	w.reach.badTimes()
	for _, k := range w.keys {
		w.busyTimes(w.jobs[k])
	}
	return w
}

func (c Constants) withDefaults() Constants {
	c.Dispatch, c.Recovery = cmp.Or(c.Dispatch, time.Second), cmp.Or(c.Recovery, 30*time.Second)
	c.OwnerLease, c.Lease = cmp.Or(c.OwnerLease, 15*time.Second), cmp.Or(c.Lease, 2*time.Minute)
	c.Grace, c.MisfireAfter = cmp.Or(c.Grace, 5*time.Second), cmp.Or(c.MisfireAfter, 5*time.Second)
	c.Kept = cmp.Or(c.Kept, 30*time.Second)
	c.Handover = cmp.Or(c.Handover, 3*time.Second)
	c.CatchUpLimit, c.DrainRate = cmp.Or(c.CatchUpLimit, 1000), cmp.Or(c.DrainRate, 10)
	return c
}

func (w *world) job(namespace, name string) *job {
	k := key{namespace, name}
	j := w.jobs[k]
	if j == nil {
		j = &job{key: k}
		w.jobs[k] = j
	}
	return j
}

func (w *world) indexOps() {
	var wide []*Op // of several jobs
	for i := range w.h.Ops {
		o := &w.h.Ops[i]
		switch o.Kind {
		case PutNamespace, List:
		case DeletePrefix, Purge:
			wide = append(wide, o)
		default:
			j := w.job(o.Namespace, o.Job)
			j.ops = append(j.ops, o)
		}
	}
	for _, o := range wide {
		for k, j := range w.jobs {
			if k.namespace == o.Namespace && (o.Kind == DeletePrefix && strings.HasPrefix(k.name, o.Job) ||
				o.Kind == Purge && j.mayBeIn(o.Spec.Queue)) {
				j.ops = append(j.ops, o)
			}
		}
	}
	for i := range w.h.Final.Jobs {
		f := &w.h.Final.Jobs[i]
		w.job(f.Namespace, f.Job).final = f
	}
}

func (w *world) indexRuns() {
	for i := range w.h.Attempts {
		a := &w.h.Attempts[i]
		r := w.runs[a.RunID]
		if r == nil {
			r = &run{id: a.RunID, job: w.job(a.Namespace, a.Job), pos: map[string]int{}}
			w.runs[a.RunID] = r
			w.ids = append(w.ids, a.RunID)
			r.job.runs = append(r.job.runs, r)
		}
		r.attempts = append(r.attempts, a)
	}
	slices.Sort(w.ids)
	for i := range w.h.Results {
		if r := w.runs[w.h.Results[i].RunID]; r != nil {
			r.results = append(r.results, &w.h.Results[i])
		}
	}
	for i := range w.h.Heartbeats {
		if r := w.runs[w.h.Heartbeats[i].RunID]; r != nil {
			r.heartbeats = append(r.heartbeats, &w.h.Heartbeats[i])
		}
	}
	for _, f := range w.h.Final.Runs {
		j := w.job(f.Namespace, f.Job)
		j.record(f)
		if r := w.runs[f.RunID]; r != nil && f.Skipped == 0 {
			r.records = append(r.records, f)
		}
	}
	for _, j := range w.jobs {
		j.passed = merged(j.passed)
	}
	for _, r := range w.runs {
		slices.SortStableFunc(r.attempts, func(a, b *Attempt) int { return a.At.Compare(b.At) })
		slices.SortStableFunc(r.results, func(a, b *Result) int { return a.Sent.Compare(b.Sent) })
		for i, a := range r.attempts {
			if _, ok := r.pos[a.Token]; !ok {
				r.pos[a.Token] = i
			}
		}
	}
}

// record adds a record of the history.
func (j *job) record(f FinalRun) {
	if j.ended == nil {
		j.ended, j.known = map[time.Time]bool{}, map[string]bool{}
	}
	j.records = append(j.records, f)
	j.known[f.RunID] = true
	if f.Cause != CauseSchedule && f.Cause != "" {
		return
	}
	j.ended[f.Scheduled.UTC()] = true
	if f.Skipped > 0 && !f.From.After(f.Scheduled) {
		j.passed = append(j.passed, span{f.From, f.Scheduled.Add(1)})
	}
}

// covered reports whether a record is of the run that the schedule meant for t, or of a stretch with it.
func (j *job) covered(t time.Time) bool { return j.ended[t.UTC()] || within(j.passed, t) }

// within reports whether t is in one of the stretches, which are sorted and apart.
func within(spans []span, t time.Time) bool {
	i := sort.Search(len(spans), func(i int) bool { return spans[i].to.After(t) })
	return i < len(spans) && !spans[i].from.After(t)
}

// terminal reports whether a result ends its attempt.
func (r *Result) terminal() bool {
	return r.Kind != Progress && r.Kind != Fabricated && r.Kind != LostWorker
}

// defines reports whether an operation says what a job is.
func (o *Op) defines() bool { return o.Kind == Put || o.Kind == BatchPut || o.Kind == Patch }

func (o *Op) deletes() bool { return o.Kind == Delete || o.Kind == DeletePrefix }

// cancels reports whether an operation ends runs that have begun, and nothing else.
func (o *Op) cancels() bool { return o.Kind == Cancel || o.Kind == Purge }

// changes reports whether an operation says what a job is, whether it is paused, or that it is gone.
func (o *Op) changes() bool {
	return o.defines() || o.deletes() || o.Kind == Pause || o.Kind == Resume
}

// effectsOf are the changes of a job, as narrow in time as can be told.
func (w *world) effectsOf(j *job) []*effect {
	var out []*effect
	for _, o := range j.ops {
		if !o.changes() || o.Outcome == Fail || (o.defines() && o.Spec == nil) {
			continue
		}
		out = append(out, &effect{op: o, lo: o.Invoke, hi: w.by(o), sure: o.Outcome == OK})
	}
	out = slices.DeleteFunc(out, func(e *effect) bool {
		return e.op.Outcome == Info && e.op.defines() && w.settle(j, e, out)
	})
	for _, e := range out {
		w.define(j, e, out)
	}
	for _, e := range out {
		e.until = w.never()
		for _, x := range out {
			if x.sure && (x.op.defines() || x.op.deletes()) && x.after(e) {
				e.until = earlier(e.until, x.hi)
			}
		}
	}
	for _, e := range out {
		if l, ok := w.lapses.lost[e.op]; ok && l.sure {
			e.undone, e.until = l.lapse, earlier(e.until, l.lapse.To)
		}
	}
	keepTimes(out)
	return out
}

// by is the latest moment at which an operation may have taken effect.
func (w *world) by(o *Op) time.Time {
	switch l, lost := w.lapses.lost[o]; {
	case lost && l.sure:
		return l.lapse.Back
	case o.Outcome != Info:
		return o.Return
	case w.k.Linger > 0 && !o.Return.IsZero():
		return o.Return.Add(w.k.Linger)
	}
	return w.never()
}

// sameTimes reports whether a put of b over a keeps the phase of a recurring job.
func sameTimes(a, b *Job) bool {
	return a.Schedule != "" && a.Schedule == b.Schedule && a.Zone == b.Zone && a.Literal == b.Literal &&
		a.Due.Equal(b.Due) && a.DueIn == b.DueIn &&
		a.TTL == b.TTL && a.Expires.Equal(b.Expires) && a.Repeats == b.Repeats
}

// never is a moment after everything in the history.
func (w *world) never() time.Time { return w.h.End.AddDate(100, 0, 0) }

// after reports whether e surely took effect after x.
func (e *effect) after(x *effect) bool {
	if e == x {
		return false
	}
	if e.op.Outcome == OK && x.op.Outcome == OK && e.op.Answer.UID != "" && e.op.Answer.UID == x.op.Answer.UID &&
		e.op.Answer.Generation != x.op.Answer.Generation {
		return e.op.Answer.Generation > x.op.Answer.Generation
	}
	return !e.lo.Before(x.hi)
}

// settle looks for a sign of an unknown put: its payload. It reports whether the put surely did nothing.
func (w *world) settle(j *job, e *effect, all []*effect) (nothing bool) {
	payload := e.op.Spec.Payload
	if _, lost := w.lapses.lost[e.op]; lost || payload == "" {
		return false // what was seen of it may be of the history that is lost
	}
	last := true
	for _, x := range all {
		if x == e {
			continue
		}
		if x.op.defines() && x.op.Spec.Payload == payload {
			return false
		}
		last = last && !x.op.deletes() && !(x.op.defines() && x.hi.After(e.lo))
	}
	seen := time.Time{}
	note := func(t time.Time) {
		if seen.IsZero() || t.Before(seen) {
			seen = t
		}
	}
	for _, r := range j.runs {
		for _, a := range r.attempts {
			if a.Payload == payload {
				note(a.At)
			}
		}
	}
	for _, o := range j.ops {
		if o.Kind == Get && o.Outcome == OK && o.Answer.Payload == payload {
			note(o.Return)
		}
	}
	if j.final != nil && j.final.Payload == payload {
		note(w.h.End)
	}
	if !seen.IsZero() {
		e.sure, e.hi = true, earlier(e.hi, seen)
		return false
	}
	return last && w.h.Final.Whole && j.final != nil
}

// define works out what a job is by an effect; all are the changes of the job.
func (w *world) define(j *job, e *effect, all []*effect) {
	if !e.op.defines() || e.job != nil {
		return
	}
	e.job = e.op.Spec
	if e.op.Kind == Patch {
		e.job, e.vague = w.patched(j, e, all)
	}
	if e.job.Schedule != "" {
		s, err := parse(e.job.Schedule, e.job.Zone, e.job.Literal)
		e.sched, e.alien = s, err != nil
	}
}

// patched is the job that a patch made of the last definition before it, which may have been called after it:
// a call may wait for a node that starts; vague says that this need not be the one.
func (w *world) patched(j *job, e *effect, all []*effect) (*Job, bool) {
	var base *effect
	vague := false
	for _, x := range all {
		if x == e || x.after(e) {
			continue
		}
		if x.op.defines() {
			vague = vague || !x.sure || !e.after(x)
			if base == nil || !base.after(x) {
				base = x
			}
		}
		// it came back as it was when some run died
		vague = vague || (x.op.deletes() && (!e.after(x) || revived(j, x.lo, e.hi)))
	}
	if base == nil {
		return e.op.Spec, true
	}
	w.define(j, base, all)
	made := overlay(*base.job, *e.op.Spec, e.op.Fields)
	return &made, vague || base.vague
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// lease is the shortest lease that the job may have had.
func (w *world) lease(j *job) time.Duration {
	shortest := time.Duration(1<<63 - 1)
	for _, e := range j.effects {
		if e.job != nil {
			shortest = min(shortest, cmp.Or(e.job.Lease, w.k.Lease))
		}
	}
	if shortest == 1<<63-1 {
		return w.k.Lease
	}
	return shortest
}

// longestLease is the longest lease that the job may have had.
func (w *world) longestLease(j *job) time.Duration {
	longest := time.Duration(0)
	for _, e := range j.effects {
		if e.job != nil {
			longest = max(longest, cmp.Or(e.job.Lease, w.k.Lease))
		}
	}
	return cmp.Or(longest, w.k.Lease)
}

// fault reports whether a fault that may have touched an attempt of a job overlaps a stretch of time; none of
// a worker touches a nil attempt, and a wrong clock none at all: what it excuses is said by wrong and
// reached.
func (w *world) fault(j *job, from, to time.Time, a *Attempt) bool {
	_, found := w.trouble(j, from, to, a)
	return found
}

// trouble is when the faults began that overlap a stretch of time and may have touched an attempt.
func (w *world) trouble(j *job, from, to time.Time, a *Attempt) (since time.Time, found bool) {
	for _, f := range w.reach.faults(j) {
		if f.To.Before(from) || f.From.After(to) || f.Skew != 0 {
			continue
		}
		if f.worker() && (a == nil || (len(f.Targets) > 0 && !slices.Contains(f.Targets, a.Worker))) {
			continue
		}
		if !found || f.From.Before(since) {
			since = f.From
		}
		found = true
	}
	return since, found
}

// wrong is how far a job's owner's clock may have been from the harness's at some time of a stretch.
func (w *world) wrong(j *job, from, to time.Time) time.Duration {
	most := time.Duration(0)
	for _, f := range w.reach.clocks(j) {
		// what is stamped in it is that far off
		if s := f.Skew.Abs(); !f.To.Add(s).Before(from) && !f.From.Add(-s).After(to) {
			most = max(most, s)
		}
	}
	return w.k.Clock + most
}

// drift is by how much a stretch may have been longer or shorter by an owner's clock than by the harness's.
func (w *world) drift(j *job, from, to time.Time) time.Duration {
	low, high := time.Duration(0), time.Duration(0)
	for _, f := range w.reach.clocks(j) {
		if !f.To.Before(from) && !f.From.After(to) {
			low, high = min(low, f.Skew), max(high, f.Skew)
		}
	}
	return w.k.Clock + high - low
}

// showed reports whether an owner's clock may have shown t by some moment.
func (w *world) showed(j *job, t, by time.Time) bool {
	for _, f := range w.reach.clocks(j) {
		if f.Skew > 0 && !f.From.After(by) && !earlier(f.To, by).Add(f.Skew+w.k.Clock).Before(t) {
			return true
		}
	}
	return !by.Add(w.k.Clock).Before(t)
}

// worker reports whether a fault concerns workers only, and endpoint that it concerns what runs at HTTP
// targets come to.
func (f *Fault) worker() bool { return strings.HasPrefix(f.Kind, "worker") }

func (f *Fault) endpoint() bool { return strings.HasPrefix(f.Kind, "worker endpoint") }
