package partition

import (
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/store"
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

// BackfillRuns makes and cancels the runs of backfills.
type BackfillRuns struct {
	cfg       *Config
	out       *builder
	contents  *contents
	records   *Records
	window    *Window
	runs      *runs
	backfills *Backfills
	history   *History
}

// Basis returns what the times of a recurring job's schedule depend on.
func (br *BackfillRuns) Basis(key carillon.Key) (BackfillBasis, error) {
	job := br.records.find(key)
	if job == nil {
		return BackfillBasis{}, notFound(key)
	}
	j := job.job()
	if !j.Recurring() {
		return BackfillBasis{}, carillon.Errorf(carillon.FailedPrecondition, "schedule",
			"job %q has none: only a recurring job can be run at its past times", key.Name)
	}
	return BackfillBasis{j.Schedule, j.TimeZone, j.Calendars.DST, job.state.Anchor}, nil
}

// Filter returns what leaves out times of a job's backfills, as its calendars are now; nil if nothing does.
func (br *BackfillRuns) Filter(key carillon.Key) *schedule.Filter {
	if job := br.records.find(key); job != nil {
		return br.contents.filterOf(job.job())
	}
	return nil
}

// Start creates a backfill of a job. ok is false if the job's schedule has changed since the plan was
// made.
func (br *BackfillRuns) Start(now int64, key carillon.Key, spec carillon.BackfillSpec,
	p BackfillPlan) (b carillon.Backfill, ok bool, err error) {
	basis, err := br.Basis(key)
	if err != nil {
		return b, true, err
	}
	if basis != p.Basis {
		return b, false, nil
	}
	job := br.records.find(key)
	if job.state.Backfills >= carillon.MaxBackfills {
		return b, true, carillon.Errorf(carillon.ResourceExhausted, "name",
			"job %q has %d unfinished backfills, of at most %d; wait for one or cancel it", key.Name,
			job.state.Backfills, carillon.MaxBackfills)
	}
	job.state.Triggers++
	job.state.Backfills++
	br.out.note(job)
	f := br.backfills.start(store.Backfill{
		Key: key, UID: job.state.UID, Seq: job.state.Triggers, Schedule: basis.Schedule,
		TimeZone: basis.TimeZone, DST: basis.DST, Anchor: basis.Anchor, From: fromTime(spec.From),
		To: fromTime(spec.To), Overlap: spec.Overlap, Rate: spec.Rate, Total: p.Total, Next: p.First, Created: now,
	})
	return BackfillOf(&f.rec, br.cfg.Partition), true, nil
}

// Cancel stops a backfill from making runs and cancels its unfinished ones: those in memory at once,
// the others as they are read. It may be repeated. ok is false if the backfill is not in memory.
func (br *BackfillRuns) Cancel(now int64, id store.RunID) (b carillon.Backfill, ok bool) {
	if f := br.backfills.cancel(id); f != nil {
		br.advance(f, now)
	}
	return br.backfills.Get(id)
}

// work advances each backfill once whose time has come, and those for which a record has come into
// memory.
func (br *BackfillRuns) work(now int64) {
	br.feed(now)
	var again []*backfill
	for made := 0; made < backfillRound; {
		f := br.backfills.nextDue(now)
		if f == nil {
			break
		}
		made += br.advance(f, now)
		if f.timer >= 0 && f.wake <= now {
			br.backfills.setWake(f, 0)
			again = append(again, f)
		}
	}
	for _, f := range again {
		if f.goesOn() {
			br.backfills.setWake(f, now)
		}
	}
}

// feed advances the backfills that waited for a record to be read.
func (br *BackfillRuns) feed(now int64) {
	for _, f := range br.backfills.takeWaiting() {
		if f.goesOn() {
			br.advance(f, now)
		}
	}
}

// advance does what is next for a backfill: it makes runs, cancels them, or ends. It returns how many runs it
// made.
func (br *BackfillRuns) advance(f *backfill, now int64) int {
	if f.rec.Status == carillon.BackfillCancelled {
		br.callOff(f, now)
	}
	if f.over() {
		br.end(f, now)
		return 0
	}
	n, wake := f.allowance(now, br.cfg.WindowJobs)
	if wake != 0 {
		br.backfills.setWake(f, wake)
	}
	if n <= 0 {
		return 0
	}
	job := br.jobOf(f)
	if job == nil {
		return 0
	}
	if br.records.specMissing(job) { // it says which calendars exclude times
		br.backfills.awaitRead(f)
		return 0
	}
	n = min(n, carillon.MaxPending-backfillReserve-int(job.state.Pending))
	if !f.parse() {
		br.strand(f, job, now)
		return 0
	}
	made, filter := 0, br.contents.filterOf(job.job())
	for made < n && f.rec.Next != 0 {
		if filter.Excludes(toTime(f.rec.Next)) {
			br.backfills.note(f)
			f.moveOn(filter)
			continue
		}
		br.makeRun(f, job, now)
		made++
	}
	if f.over() {
		br.end(f, now)
		return made
	}
	if wake = f.pace(made, now); wake != 0 {
		br.backfills.setWake(f, wake)
	}
	return made
}

// strand ends a backfill whose schedule can no longer be parsed. No more of its runs begin, and a history
// record says why.
func (br *BackfillRuns) strand(f *backfill, job *entry, now int64) {
	if br.records.specMissing(job) {
		br.backfills.awaitRead(f)
		return
	}
	r := &f.rec
	left := r.Total - min(r.Begun, r.Total)
	br.history.add(job.job(), &job.state, store.RunRecord{
		Key: job.ref.Key,
		ID: store.RunID{Partition: uint16(br.cfg.Partition), UID: r.UID, Scheduled: r.To,
			Cause: carillon.CauseBackfill, Seq: r.Seq},
		Status: carillon.RunSkipped, Reason: ReasonSchedule, Skipped: left, From: r.Next, Due: r.To, Finished: now,
	})
	if br.cfg.Events.Skipped != nil {
		br.cfg.Events.Skipped(ReasonSchedule, left)
	}
	r.Next = 0
	br.backfills.note(f)
	if f.over() {
		br.end(f, now)
	}
}

// makeRun makes the run of a backfill's next time.
func (br *BackfillRuns) makeRun(f *backfill, job *entry, now int64) {
	job.state.Triggers++
	br.runs.addPending(job, store.State{
		UID: f.rec.UID, Generation: job.state.Generation, Created: now, Updated: now, Priority: job.state.Priority,
		Run: store.RunState{Live: true, Scheduled: f.rec.Next, Due: now,
			Cause: carillon.CauseBackfill, Seq: f.rec.Seq}, Trace: job.state.Trace,
	}, nil)
	br.backfills.note(f)
	f.begin(job.state.Triggers)
}

// jobOf returns the job, nil if it must be read first.
func (br *BackfillRuns) jobOf(f *backfill) *entry {
	job := br.records.entries[store.Ref{Key: f.rec.Key}]
	if job == nil || job.place == gone {
		br.records.needs[store.Ref{Key: f.rec.Key}] = struct{}{}
		br.backfills.awaitRead(f)
		return nil
	}
	return job
}

// callOff cancels the unfinished runs of a backfill. It asks for those that are not in memory.
func (br *BackfillRuns) callOff(f *backfill, now int64) {
	if br.jobOf(f) == nil {
		return
	}
	for _, seq := range slices.Clone(f.rec.Open) {
		ref := store.Ref{Key: f.rec.Key, Seq: seq}
		e := br.records.entries[ref]
		switch {
		case e == nil:
			br.records.needs[ref] = struct{}{}
			br.backfills.awaitRead(f)
		case br.records.specMissing(e):
			br.backfills.awaitRead(f)
		default:
			br.runs.abort(e, now, ReasonBackfill)
		}
	}
}

// end ends a backfill that is over. It also removes the job if the backfill was the last thing the
// job waited for.
func (br *BackfillRuns) end(f *backfill, now int64) {
	job := br.jobOf(f)
	if job == nil {
		return
	}
	if br.records.specMissing(job) {
		br.backfills.awaitRead(f)
		return
	}
	f.finish(now, int64(job.job().HistoryKeep()))
	br.backfills.end(f)
	job.state.Backfills--
	br.out.note(job)
	if job.place == idle && job.ended() {
		br.window.remove(job)
	}
}
