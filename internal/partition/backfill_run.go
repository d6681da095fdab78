package partition

import (
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/store"
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

// BackfillBasis returns what the times of a recurring job's schedule depend on.
func (m *Machine) BackfillBasis(key carillon.Key) (BackfillBasis, error) {
	job := m.Records.find(key)
	if job == nil {
		return BackfillBasis{}, notFound(key)
	}
	j := job.job()
	if !j.Recurring() {
		return BackfillBasis{}, carillon.Errorf(carillon.FailedPrecondition, "schedule",
			"job %q has none: only a recurring job can be run at its past times", key.Name)
	}
	return BackfillBasis{Schedule: j.Schedule, TimeZone: j.TimeZone, DST: j.DST, Anchor: job.state.Anchor}, nil
}

// StartBackfill creates a backfill of a job. ok is false if the job's schedule has changed since the plan was
// made.
func (m *Machine) StartBackfill(now int64, key carillon.Key, spec carillon.BackfillSpec, p BackfillPlan) (b carillon.Backfill, ok bool, err error) {
	basis, err := m.BackfillBasis(key)
	if err != nil {
		return b, true, err
	}
	if basis != p.Basis {
		return b, false, nil
	}
	job := m.Records.find(key)
	if job.state.Backfills >= carillon.MaxBackfills {
		return b, true, carillon.Errorf(carillon.ResourceExhausted, "name",
			"job %q has %d unfinished backfills, of at most %d; wait for one or cancel it", key.Name, job.state.Backfills, carillon.MaxBackfills)
	}
	job.state.Triggers++
	job.state.Backfills++
	m.out.note(job)
	f := m.Backfills.start(store.Backfill{
		Key: key, UID: job.state.UID, Seq: job.state.Triggers, Schedule: basis.Schedule, TimeZone: basis.TimeZone, DST: basis.DST,
		Anchor: p.Anchor, From: fromTime(spec.From), To: fromTime(spec.To), Overlap: spec.Overlap, Rate: spec.Rate,
		Total: p.Total, Next: p.First, Created: now,
	})
	return BackfillOf(&f.rec, m.cfg.Partition), true, nil
}

// CancelBackfill stops a backfill from making runs and cancels its unfinished ones: those in memory at once,
// the others as they are read. It may be repeated. ok is false if the backfill is not in memory.
func (m *Machine) CancelBackfill(now int64, id identity.Run) (b carillon.Backfill, ok bool) {
	if f := m.Backfills.cancel(id); f != nil {
		m.advance(f, now)
	}
	return m.Backfills.Get(id)
}

// workBackfills advances each backfill once whose time has come, and those for which a record has come into
// memory.
func (m *Machine) workBackfills(now int64) {
	m.feedBackfills(now)
	var again []*backfill
	for made := 0; made < backfillRound; {
		f := m.Backfills.nextDue(now)
		if f == nil {
			break
		}
		made += m.advance(f, now)
		if f.timer >= 0 && f.wake <= now {
			m.Backfills.setWake(f, 0)
			again = append(again, f)
		}
	}
	for _, f := range again {
		if f.goesOn() {
			m.Backfills.setWake(f, now)
		}
	}
}

// feedBackfills advances the backfills that waited for a record to be read.
func (m *Machine) feedBackfills(now int64) {
	for _, f := range m.Backfills.takeWaiting() {
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
	n, wake := f.allowance(now, m.cfg.WindowJobs)
	if wake != 0 {
		m.Backfills.setWake(f, wake)
	}
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
	if wake = f.pace(made, now); wake != 0 {
		m.Backfills.setWake(f, wake)
	}
	return made
}

// strand ends a backfill whose schedule can no longer be parsed. No more of its runs begin, and a history
// record says why.
func (m *Machine) strand(f *backfill, job *entry, now int64) {
	if m.Records.specMissing(job) {
		m.Backfills.awaitRead(f)
		return
	}
	r := &f.rec
	left := r.Total - min(r.Begun, r.Total)
	m.History.add(job.job(), &job.state, store.RunRecord{
		Key:    job.ref.Key,
		ID:     identity.Run{Partition: uint16(m.cfg.Partition), UID: r.UID, Scheduled: r.To, Cause: carillon.CauseBackfill, Seq: r.Seq},
		Status: carillon.RunSkipped, Reason: ReasonSchedule, Skipped: left, From: r.Next, Due: r.To, Finished: now,
	})
	if m.cfg.Events.Skipped != nil {
		m.cfg.Events.Skipped(ReasonSchedule, left)
	}
	r.Next = 0
	m.Backfills.note(f)
	if f.over() {
		m.endBackfill(f, now)
	}
}

// makeRun makes the run of a backfill's next time.
func (m *Machine) makeRun(f *backfill, job *entry, now int64) {
	job.state.Triggers++
	m.addPending(job, store.State{
		UID: f.rec.UID, Generation: job.state.Generation, Created: now, Updated: now, Priority: job.state.Priority,
		Run: store.RunState{Live: true, Scheduled: f.rec.Next, Due: now, Cause: carillon.CauseBackfill, Seq: f.rec.Seq},
	}, nil)
	m.Backfills.note(f)
	f.begin(job.state.Triggers)
}

// jobOfBackfill returns the job, nil if it must be read first.
func (m *Machine) jobOfBackfill(f *backfill) *entry {
	job := m.Records.entries[store.Ref{Key: f.rec.Key}]
	if job == nil || job.place == gone {
		m.Records.needs[store.Ref{Key: f.rec.Key}] = struct{}{}
		m.Backfills.awaitRead(f)
		return nil
	}
	return job
}

// callOff cancels the unfinished runs of a backfill. It asks for those that are not in memory.
func (m *Machine) callOff(f *backfill, now int64) {
	if m.jobOfBackfill(f) == nil {
		return
	}
	for _, seq := range slices.Clone(f.rec.Open) {
		ref := store.Ref{Key: f.rec.Key, Seq: seq}
		e := m.Records.entries[ref]
		switch {
		case e == nil:
			m.Records.needs[ref] = struct{}{}
			m.Backfills.awaitRead(f)
		case m.Records.specMissing(e):
			m.Backfills.awaitRead(f)
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
	if m.Records.specMissing(job) {
		m.Backfills.awaitRead(f)
		return
	}
	f.finish(now, int64(job.job().HistoryKeep()))
	m.Backfills.end(f)
	job.state.Backfills--
	m.out.note(job)
	if job.place == idle && job.ended() {
		m.Window.remove(job)
	}
}
