package partition

import (
	"container/heap"
	"math"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/store"
	"github.com/carillonhq/carillon/store/codec"
)

// ReasonBackfill says that a run was cancelled because the backfill that made it was.
const ReasonBackfill = "backfill"

// Bounds on the runs that backfills make.
const (
	backfillChunk = 256  // at a time, by one backfill
	backfillRound = 1024 // at a time, by all backfills of the partition
	backfillOpen  = 1000 // unfinished runs of one backfill: its record names each of them
	// Pending runs of a job that backfills leave to triggers and others.
	backfillReserve = carillon.MaxPending / 10
)

// workBackfills advances each backfill once whose time has come, and those for which a record has come into
// memory.
func (m *Machine) workBackfills(now int64) {
	m.feedBackfills(now)
	var again []*backfill
	for made := 0; made < backfillRound && len(m.fills.timers) > 0 && m.fills.timers[0].wake <= now; {
		f := m.fills.timers[0]
		m.setBackfillWake(f, 0)
		made += m.advance(f, now)
		if f.timer >= 0 && f.wake <= now {
			m.setBackfillWake(f, 0)
			again = append(again, f)
		}
	}
	for _, f := range again {
		if f.goesOn() {
			m.setBackfillWake(f, now)
		}
	}
}

func (f *backfill) goesOn() bool { return !f.gone && f.rec.Finished == 0 }

// feedBackfills advances the backfills that waited for a record to be read.
func (m *Machine) feedBackfills(now int64) {
	waiting := m.fills.waiting
	m.fills.waiting = nil
	for _, f := range waiting {
		f.waits = false
		if f.goesOn() {
			m.advance(f, now)
		}
	}
}

// advance does what is next for a backfill: it makes runs, cancels them, or ends. It returns how many runs it
// made.
func (m *Machine) advance(f *backfill, now int64) int {
	if f.rec.Status == carillon.BackfillCancelled {
		m.callOff(f, now)
	}
	if f.over() {
		m.endBackfill(f, now)
		return 0
	}
	n := m.allowance(f, now)
	if n <= 0 {
		return 0
	}
	job := m.jobOfBackfill(f)
	if job == nil {
		return 0
	}
	n = min(n, carillon.MaxPending-backfillReserve-int(job.state.Pending))
	if !f.parse() {
		m.strand(f, job, now)
		return 0
	}
	made := 0
	for made < n && f.rec.Next != 0 {
		m.makeRun(f, job, now)
		made++
	}
	m.pace(f, made, now)
	return made
}

// parse parses the backfill's schedule once. It returns false if that is no longer possible, for example
// because the time zone was removed.
func (f *backfill) parse() bool {
	if f.sched == nil {
		basis := BackfillBasis{Schedule: f.rec.Schedule, TimeZone: f.rec.TimeZone, DST: f.rec.DST}
		f.sched, _ = basis.parse() // an error is unexpected: it was valid when the backfill was started
	}
	return f.sched != nil
}

// strand ends a backfill whose schedule can no longer be parsed. No more of its runs begin, and a history
// record says why.
func (m *Machine) strand(f *backfill, job *entry, now int64) {
	if m.specMissing(job) {
		m.awaitRead(f)
		return
	}
	r := &f.rec
	left := r.Total - min(r.Begun, r.Total)
	m.historyOf(job, store.RunRecord{
		ID:     identity.Run{Partition: uint16(m.cfg.Partition), UID: r.UID, Scheduled: r.To, Cause: carillon.CauseBackfill, Seq: r.Seq},
		Status: carillon.RunSkipped, Reason: ReasonSchedule, Skipped: left, From: r.Next, Due: r.To, Finished: now,
	})
	if m.cfg.Events.Skipped != nil {
		m.cfg.Events.Skipped(ReasonSchedule, left)
	}
	r.Next = 0
	m.noteBackfill(f)
	if f.over() {
		m.endBackfill(f, now)
	}
}

// allowance returns how many runs a backfill may make now, leaving aside the bound on its job's pending runs.
// If none because of its rate, its timer is set. Otherwise it waits for the end of a run.
func (m *Machine) allowance(f *backfill, now int64) int {
	open := len(f.rec.Open)
	switch {
	case f.rec.Next == 0 || (f.rec.Overlap == carillon.OverlapSerial && open > 0):
		return 0
	case now < f.rec.Earliest:
		m.setBackfillWake(f, f.rec.Earliest)
		return 0
	}
	n := min(backfillChunk, min(backfillOpen, max(backfillOpen/16, m.cfg.WindowJobs/2))-open)
	if f.rec.Rate > 0 {
		n = min(n, atOnce(f.rec.Rate))
	}
	if f.rec.Overlap == carillon.OverlapSerial {
		n = min(n, 1)
	}
	return n
}

// atOnce returns how many runs a rate, in runs per second, lets begin at one instant: one, or as many as come
// in 10 ms if that is more, because a partition does not act much more often.
func atOnce(rate float64) int { return max(1, int(rate/100)) }

// pace sets when a backfill goes on that has just made some runs.
func (m *Machine) pace(f *backfill, made int, now int64) {
	if made == 0 {
		return // the job has too many pending runs; the end of one wakes the backfill
	}
	if f.rec.Rate > 0 {
		f.rec.Earliest = now + int64(math.Ceil(min(float64(made)*1e9/f.rec.Rate, float64(carillon.MaxSpan))))
	}
	switch {
	case f.rec.Next == 0 || f.rec.Overlap == carillon.OverlapSerial:
	case f.rec.Rate > 0:
		m.setBackfillWake(f, f.rec.Earliest)
	default:
		m.setBackfillWake(f, now)
	}
}

// makeRun makes the run of a backfill's next time, and moves on to the time after.
func (m *Machine) makeRun(f *backfill, job *entry, now int64) {
	r := &f.rec
	job.state.Triggers++
	m.addPending(job, store.State{
		UID: r.UID, Generation: job.state.Generation, Created: now, Updated: now, Priority: job.state.Priority,
		Run: store.RunState{Live: true, Scheduled: r.Next, Due: now, Cause: carillon.CauseBackfill, Seq: r.Seq},
	}, nil)
	m.noteBackfill(f)
	r.Open = append(r.Open, job.state.Triggers)
	r.Begun++
	next, ok := f.sched.Next(toTime(r.Next), toTime(r.Anchor))
	if r.Next = fromTime(next); !ok || r.Begun == r.Total || r.Next > r.To {
		r.Next = 0
	}
}

// jobOfBackfill returns the job, nil if it must be read first.
func (m *Machine) jobOfBackfill(f *backfill) *entry {
	job := m.entries[store.Ref{Key: f.rec.Key}]
	if job == nil || job.gone {
		m.needs[store.Ref{Key: f.rec.Key}] = struct{}{}
		m.awaitRead(f)
		return nil
	}
	return job
}

func (m *Machine) awaitRead(f *backfill) {
	if !f.waits {
		f.waits = true
		m.fills.waiting = append(m.fills.waiting, f)
	}
}

// callOff cancels the unfinished runs of a backfill. It asks for those that are not in memory.
func (m *Machine) callOff(f *backfill, now int64) {
	if m.jobOfBackfill(f) == nil {
		return
	}
	for _, seq := range slices.Clone(f.rec.Open) {
		ref := store.Ref{Key: f.rec.Key, Seq: seq}
		e := m.entries[ref]
		switch {
		case e == nil:
			m.needs[ref] = struct{}{}
			m.awaitRead(f)
		case m.specMissing(e):
			m.awaitRead(f)
		default:
			m.abort(e, now, ReasonBackfill)
		}
	}
}

// endBackfill ends a backfill that is over. It also removes the job if the backfill was the last thing the
// job waited for.
func (m *Machine) endBackfill(f *backfill, now int64) {
	job := m.jobOfBackfill(f)
	if job == nil {
		return
	}
	if m.specMissing(job) {
		m.awaitRead(f)
		return
	}
	switch {
	case f.rec.Begun < f.rec.Total: // strand, or a cancel, ended it early
		f.rec.Status = carillon.BackfillCancelled
	case f.rec.Status == carillon.BackfillRunning:
		f.rec.Status = carillon.BackfillDone
	}
	f.rec.Finished = now
	f.rec.Expires = now + int64(m.jobOf(job).HistoryKeep())
	m.leaveBackfill(f)
	job.state.Backfills--
	m.note(job)
	if job.place == idle && job.ended() {
		m.remove(job)
	}
}

// leaveBackfill takes a backfill out of the unfinished ones.
func (m *Machine) leaveBackfill(f *backfill) {
	m.setBackfillWake(f, 0)
	m.noteBackfill(f)
	key := f.rec.Key
	rest := slices.DeleteFunc(m.fills.ofJob[key], func(o *backfill) bool { return o == f })
	if m.fills.ofJob[key] = rest; len(rest) == 0 {
		delete(m.fills.ofJob, key)
	}
	m.fills.leaving = append(m.fills.leaving, f)
}

// dropBackfills ends the backfills of a job that is deleted. Their records are deleted with it.
func (m *Machine) dropBackfills(key carillon.Key) {
	for _, f := range slices.Clone(m.fills.ofJob[key]) {
		f.gone = true
		m.leaveBackfill(f)
	}
}

// tellBackfills counts the end of a pending run for the backfill that made it, and wakes the job's backfills
// that may have waited for that. A redriven run has been counted already.
func (m *Machine) tellBackfills(e *entry, now int64, status carillon.RunStatus) {
	for _, f := range m.fills.ofJob[e.ref.Key] {
		if e.state.Run.Cause == carillon.CauseBackfill && f.rec.Seq == e.state.Run.Seq {
			m.closeRun(f, e.ref.Seq, status)
		}
		if f.timer < 0 {
			m.setBackfillWake(f, now)
		}
	}
}

// closeRun counts the end of one of f's unfinished runs.
func (m *Machine) closeRun(f *backfill, seq uint64, status carillon.RunStatus) {
	i, open := slices.BinarySearch(f.rec.Open, seq)
	if !open {
		return
	}
	f.rec.Open = slices.Delete(f.rec.Open, i, i+1)
	if status == carillon.RunSucceeded {
		f.rec.Succeeded++
	} else {
		f.rec.Failed++
	}
	m.noteBackfill(f)
}

// noteAbsent notes that the store does not have a record. It should have those that backfills need; if it has
// lost one, they must not wait for it forever.
func (m *Machine) noteAbsent(ref store.Ref) {
	if m.entries[ref] != nil || len(m.fills.ofJob[ref.Key]) == 0 {
		return
	}
	if ref.Seq == 0 {
		m.dropBackfills(ref.Key)
		return
	}
	for _, f := range m.fills.ofJob[ref.Key] {
		m.closeRun(f, ref.Seq, carillon.RunCancelled)
	}
}

// noteBackfill has a backfill's record written.
func (m *Machine) noteBackfill(f *backfill) {
	if f.seq != m.out.seq {
		f.seq = m.out.seq
		m.fills.changed = append(m.fills.changed, f)
	}
	m.out.await(m.out.seq)
}

// backfillRecords returns the records of the backfills that have changed, for the batch that is sealed.
func (m *Machine) backfillRecords() []store.MetaRecord {
	var out []store.MetaRecord
	for _, f := range m.fills.changed {
		unfinished := store.MetaRecord{Kind: store.KindBackfill, Key: backfillKey(UnfinishedBackfills, f.id)}
		if f.goesOn() {
			unfinished.Value = codec.AppendBackfill(nil, &f.rec)
		}
		out = append(out, unfinished)
		if !f.gone && f.rec.Finished != 0 {
			out = append(out, store.MetaRecord{Kind: store.KindBackfill, Key: EndedBackfill(f.id), Value: codec.AppendBackfill(nil, &f.rec)})
		}
	}
	m.fills.changed = nil
	return out
}

// forgetBackfills drops from memory the backfills whose end is durable.
func (m *Machine) forgetBackfills() {
	m.fills.leaving = slices.DeleteFunc(m.fills.leaving, func(f *backfill) bool {
		over := f.seq <= m.out.durable
		if over {
			delete(m.fills.byID, f.id)
		}
		return over
	})
}

// setBackfillWake sets when a backfill goes on; 0: not by itself.
func (m *Machine) setBackfillWake(f *backfill, at int64) {
	f.wake = at
	switch {
	case at == 0 && f.timer >= 0:
		heap.Remove(&m.fills.timers, f.timer)
	case at == 0:
	case f.timer >= 0:
		heap.Fix(&m.fills.timers, f.timer)
	default:
		heap.Push(&m.fills.timers, f)
	}
}

// backfillTimers is a heap of backfills by wake, then job and sequence.
type backfillTimers []*backfill

func (t backfillTimers) Len() int { return len(t) }
func (t backfillTimers) Less(i, j int) bool {
	if t[i].wake != t[j].wake {
		return t[i].wake < t[j].wake
	}
	return store.Ref{Key: t[i].rec.Key, Seq: t[i].rec.Seq}.Compare(store.Ref{Key: t[j].rec.Key, Seq: t[j].rec.Seq}) < 0
}
func (t backfillTimers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].timer, t[j].timer = i, j
}

// Push implements container/heap.
func (t *backfillTimers) Push(x any) {
	f := x.(*backfill)
	f.timer = len(*t)
	*t = append(*t, f)
}

// Pop implements container/heap.
func (t *backfillTimers) Pop() any {
	old := *t
	f := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	f.timer = -1
	return f
}
