package partition

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/store"
)

// Backfills are metadata records (store.KindBackfill). Their keys are one byte for whether it goes on, the job's uid, which begins with the
// hash of the job's key, and the backfill's sequence: an id, or a job, leads to its records without an index, and a new owner reads
// those that go on alone.

// The first byte of a backfill's key.
const (
	UnfinishedBackfills = "u"
	EndedBackfills      = "e"
)

// EndedBackfillsOf is what the keys of a job's ended backfills begin with; another job's may, too.
func EndedBackfillsOf(key carillon.Key) string {
	return string(binary.BigEndian.AppendUint64([]byte(EndedBackfills), carillon.KeyHash(key)))
}

// EndedBackfill is the key of an ended backfill.
func EndedBackfill(id carillon.RunIdentity) string { return backfillKey(EndedBackfills, id) }

func backfillKey(prefix string, id carillon.RunIdentity) string {
	return string(binary.BigEndian.AppendUint64(append([]byte(prefix), id.UID[:]...), id.Seq))
}

// backfill is an unfinished backfill, or one whose end is not durable yet.
type backfill struct {
	id    carillon.RunIdentity // Scheduled 0: no run has it
	rec   store.Backfill
	sched *schedule.Schedule // nil: not parsed yet
	wake  int64              // when it goes on; 0 = when a run ends
	timer int                // index in the heap; -1 = not in it
	seq   uint64             // the batch that holds its newest change
	waits bool               // in backfills.waiting
	gone  bool               // it went with its job
}

// over reports whether nothing more can become of f.
func (f *backfill) over() bool { return f.rec.Next == 0 && len(f.rec.Open) == 0 }

// backfills is what a machine knows of them.
type backfills struct {
	byID    map[carillon.RunIdentity]*backfill
	ofJob   map[carillon.Key][]*backfill // those that go on, by sequence
	timers  backfillTimers
	waiting []*backfill // for a record to be read
	changed []*backfill // in the batch that fills
	leaving []*backfill // ended or gone, until that is durable
}

func newBackfills() backfills {
	return backfills{byID: map[carillon.RunIdentity]*backfill{}, ofJob: map[carillon.Key][]*backfill{}}
}

// backfillOf is the id of the backfill that made a run, empty if none did.
func backfillOf(run carillon.RunIdentity) string {
	if run.Cause != carillon.CauseBackfill {
		return ""
	}
	run.Scheduled = 0
	return run.String()
}

// BackfillOf is a stored backfill as callers see it.
func BackfillOf(r *store.Backfill, partition int) carillon.Backfill {
	id := carillon.RunIdentity{Partition: uint16(partition), UID: r.UID, Cause: carillon.CauseBackfill, Seq: r.Seq}
	return carillon.Backfill{
		ID: id.String(), Namespace: r.Key.Namespace, Job: r.Key.Name,
		Spec:   carillon.BackfillSpec{From: toTime(r.From), To: toTime(r.To), Overlap: r.Overlap, Rate: r.Rate},
		Status: r.Status, Total: r.Total, Begun: r.Begun, Succeeded: r.Succeeded, Failed: r.Failed,
		Next: orTime(r.Next), Created: toTime(r.Created), Finished: orTime(r.Finished),
	}
}

// BackfillBasis is what the times of a job's schedule hang on.
type BackfillBasis struct {
	Schedule string
	TimeZone string
	DST      carillon.DST
	Anchor   int64
}

// BackfillPlan is which times of a schedule lie in a stretch. Counting them may take long: it is done outside the machine.
type BackfillPlan struct {
	Basis  BackfillBasis // of the job when they were counted
	Anchor int64         // what they are counted from
	Total  uint64
	First  int64
}

// BackfillBasis is what the times of a recurring job's schedule hang on.
func (m *Machine) BackfillBasis(key carillon.Key) (BackfillBasis, error) {
	job := m.find(key)
	if job == nil {
		return BackfillBasis{}, notFound(key)
	}
	j := m.jobOf(job)
	if !j.Recurring() {
		return BackfillBasis{}, carillon.Errorf(carillon.FailedPrecondition, "schedule",
			"job %q has none: only a recurring job can be run at its past times", key.Name)
	}
	return BackfillBasis{Schedule: j.Schedule, TimeZone: j.TimeZone, DST: j.DST, Anchor: job.state.Anchor}, nil
}

func (b BackfillBasis) parse() (*schedule.Schedule, error) {
	j := carillon.Job{Schedule: b.Schedule, TimeZone: b.TimeZone, DST: b.DST}
	return j.ParseSchedule()
}

// PlanBackfill finds the times of a schedule in a valid stretch.
func PlanBackfill(basis BackfillBasis, spec carillon.BackfillSpec) (BackfillPlan, error) {
	s, err := basis.parse()
	if err != nil {
		return BackfillPlan{}, err
	}
	from, to := fromTime(spec.From), fromTime(spec.To)
	p := BackfillPlan{Basis: basis, Anchor: extended(s, basis.Anchor, from)}
	anchor := toTime(p.Anchor)
	limit := carillon.MaxBackfillRuns + 1
	if s.Period() > 0 {
		limit = math.MaxInt // arithmetic
	}
	p.Total = uint64(s.Count(toTime(from-1), toTime(to), anchor, limit))
	if runs, limited := s.Repeats(); limited {
		// Without a start in the text the repeats count from the anchor. With one, no more come than there are anyway.
		most := int(min(runs, math.MaxInt))
		p.Total = min(p.Total, uint64(most-s.Count(anchor.Add(-1), toTime(from-1), anchor, most)))
	}
	first, _ := s.Next(toTime(from-1), anchor)
	switch p.First = fromTime(first); {
	case p.Total == 0:
		return p, carillon.Errorf(carillon.InvalidArgument, "from", "the job's schedule has no time from %s to %s",
			show(from), show(to))
	case p.Total > carillon.MaxBackfillRuns:
		return p, carillon.Errorf(carillon.InvalidArgument, "to", "%s scheduled times are more than the %d of one backfill; shorten the stretch",
			atLeast(p.Total, limit), carillon.MaxBackfillRuns)
	}
	return p, nil
}

// extended is the anchor of an @every carried back in whole periods to before a time; every other schedule has no time
// before its anchor, or does not go by it.
func extended(s *schedule.Schedule, anchor, from int64) int64 {
	every := s.Anchored() && s.Period() > 0 && strings.Contains(strings.ToLower(s.String()), "@every")
	if !every || from >= anchor {
		return anchor
	}
	period := int64(s.Period())
	back := (anchor - from) % period
	return from - (period-back)%period
}

// atLeast is a count for people, which stopped at a limit.
func atLeast(n uint64, limit int) string {
	if n >= uint64(limit) {
		return fmt.Sprintf("%d or more", n)
	}
	return strconv.FormatUint(n, 10)
}

func show(ns int64) string { return toTime(ns).Format("2006-01-02T15:04:05Z07:00") }

// StartBackfill makes a backfill of a job. ok is false if the plan is not that of the job's schedule any more.
func (m *Machine) StartBackfill(now int64, key carillon.Key, spec carillon.BackfillSpec, p BackfillPlan) (b carillon.Backfill, ok bool, err error) {
	basis, err := m.BackfillBasis(key)
	if err != nil {
		return b, true, err
	}
	if basis != p.Basis {
		return b, false, nil
	}
	job := m.find(key)
	if job.state.Backfills >= carillon.MaxBackfills {
		return b, true, carillon.Errorf(carillon.ResourceExhausted, "name",
			"job %q has %d unfinished backfills, of at most %d; wait for one or cancel it", key.Name, job.state.Backfills, carillon.MaxBackfills)
	}
	job.state.Triggers++
	job.state.Backfills++
	m.note(job)
	f := m.addBackfill(store.Backfill{
		Key: key, UID: job.state.UID, Seq: job.state.Triggers, Schedule: basis.Schedule, TimeZone: basis.TimeZone, DST: basis.DST,
		Anchor: p.Anchor, From: fromTime(spec.From), To: fromTime(spec.To), Overlap: spec.Overlap, Rate: spec.Rate,
		Total: p.Total, Next: p.First, Created: now,
	})
	m.noteBackfill(f)
	m.setBackfillWake(f, now)
	return BackfillOf(&f.rec, m.cfg.Partition), true, nil
}

// addBackfill brings a backfill that goes on into memory.
func (m *Machine) addBackfill(rec store.Backfill) *backfill {
	id := carillon.RunIdentity{Partition: uint16(m.cfg.Partition), UID: rec.UID, Cause: carillon.CauseBackfill, Seq: rec.Seq}
	f := &backfill{id: id, rec: rec, timer: -1}
	m.fills.byID[id] = f
	m.fills.ofJob[rec.Key] = append(m.fills.ofJob[rec.Key], f)
	return f
}

// LoadBackfills takes the records of unfinished backfills, at takeover. Those that cannot be read are left out, and named in
// the error.
func (m *Machine) LoadBackfills(records []store.MetaRecord, now int64) error {
	var damaged []error
	for _, r := range records {
		rec, err := store.DecodeBackfill(r.Value)
		if err != nil {
			damaged = append(damaged, fmt.Errorf("backfill %x: %w", r.Key, err))
			continue
		}
		m.setBackfillWake(m.addBackfill(rec), now)
	}
	return errors.Join(damaged...)
}

// Backfill is a backfill in memory, as all are that go on; ok is false if it is not.
func (m *Machine) Backfill(id carillon.RunIdentity) (b carillon.Backfill, ok bool) {
	f := m.fills.byID[id]
	if f == nil {
		return b, false
	}
	m.wait(f.seq)
	return BackfillOf(&f.rec, m.cfg.Partition), !f.gone
}

// Backfills is those of a job that are in memory.
func (m *Machine) Backfills(key carillon.Key) []carillon.Backfill {
	var out []carillon.Backfill
	for _, f := range m.fills.ofJob[key] {
		m.wait(f.seq)
		out = append(out, BackfillOf(&f.rec, m.cfg.Partition))
	}
	for _, f := range m.fills.leaving {
		if f.rec.Key != key {
			continue
		}
		m.wait(f.seq)
		if !f.gone {
			out = append(out, BackfillOf(&f.rec, m.cfg.Partition))
		}
	}
	return out
}

// SortBackfills puts the newest first.
func SortBackfills(list []carillon.Backfill) {
	slices.SortFunc(list, func(a, b carillon.Backfill) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID)) })
}

// OpenRuns is the records that the cancel of a backfill acts on: its job and its unfinished runs.
func (m *Machine) OpenRuns(id carillon.RunIdentity) []store.Ref {
	f := m.fills.byID[id]
	if f == nil || f.gone {
		return nil
	}
	refs := []store.Ref{{Key: f.rec.Key}}
	for _, seq := range f.rec.Open {
		refs = append(refs, store.Ref{Key: f.rec.Key, Seq: seq})
	}
	return refs
}

// CancelBackfill lets no further run of a backfill be made and cancels its unfinished ones: at once those in memory, the
// others as they are read. It is harmless to repeat; ok is false if the backfill is not in memory.
func (m *Machine) CancelBackfill(now int64, id carillon.RunIdentity) (b carillon.Backfill, ok bool) {
	f := m.fills.byID[id]
	if f != nil && !f.gone && f.rec.Status == carillon.BackfillRunning {
		f.rec.Status, f.rec.Next = carillon.BackfillCancelled, 0
		m.noteBackfill(f)
		m.advance(f, now)
	}
	return m.Backfill(id)
}

// SweepBackfills removes those of the ended backfills' records whose time is over. Bytes that cannot be read go as well.
func (m *Machine) SweepBackfills(records []store.MetaRecord, now int64) {
	for _, r := range records {
		if rec, err := store.DecodeBackfill(r.Value); err != nil || rec.Expires <= now {
			m.out.small = append(m.out.small, store.MetaRecord{Kind: store.KindBackfill, Key: r.Key})
		}
	}
}
