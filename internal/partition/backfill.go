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
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/store"
	"github.com/carillonhq/carillon/store/codec"
)

// Backfills are metadata records (store.KindBackfill). The key is one byte for whether the backfill is
// unfinished, the job's uid, which begins with the hash of the job's key, and the backfill's sequence. So an
// id, or a job, leads to its records without an index, and a new owner reads only the unfinished ones.

// These are the first byte of a backfill's key.
const (
	UnfinishedBackfills = "u"
	EndedBackfills      = "e"
)

// EndedBackfillsOf returns the prefix of the keys of a job's ended backfills. Another job's keys may have it,
// too.
func EndedBackfillsOf(key carillon.Key) string {
	return string(binary.BigEndian.AppendUint64([]byte(EndedBackfills), identity.Hash(key)))
}

// EndedBackfill returns the key of an ended backfill.
func EndedBackfill(id identity.Run) string { return backfillKey(EndedBackfills, id) }

func backfillKey(prefix string, id identity.Run) string {
	return string(binary.BigEndian.AppendUint64(append([]byte(prefix), id.UID[:]...), id.Seq))
}

// backfill is an unfinished backfill, or one whose end is not durable yet.
type backfill struct {
	id    identity.Run // Scheduled is 0, so it is no run's id
	rec   store.Backfill
	sched *schedule.Schedule // nil: not parsed yet
	wake  int64              // when it goes on; 0: when a run ends
	timer int                // index in the heap; -1: not in it
	seq   uint64             // the batch that holds its newest change
	waits bool               // it is in backfills.waiting
	gone  bool               // it was deleted with its job
}

// over reports whether f has no time left to run and no unfinished run.
func (f *backfill) over() bool { return f.rec.Next == 0 && len(f.rec.Open) == 0 }

// backfills are the backfills of a partition.
type backfills struct {
	byID    map[identity.Run]*backfill
	ofJob   map[carillon.Key][]*backfill // unfinished ones, by sequence
	timers  backfillTimers
	waiting []*backfill // for a record to be read
	changed []*backfill // in the batch being filled
	leaving []*backfill // ended or deleted; kept until that is durable
}

func newBackfills() backfills {
	return backfills{byID: map[identity.Run]*backfill{}, ofJob: map[carillon.Key][]*backfill{}}
}

// backfillOf returns the id of the backfill that made a run, empty if none did.
func backfillOf(run identity.Run) string {
	if run.Cause != carillon.CauseBackfill {
		return ""
	}
	run.Scheduled = 0
	return run.String()
}

// BackfillOf converts a stored backfill to what callers see.
func BackfillOf(r *store.Backfill, partition int) carillon.Backfill {
	id := identity.Run{Partition: uint16(partition), UID: r.UID, Cause: carillon.CauseBackfill, Seq: r.Seq}
	return carillon.Backfill{
		ID: id.String(), Namespace: r.Key.Namespace, Job: r.Key.Name,
		Spec:   carillon.BackfillSpec{From: toTime(r.From), To: toTime(r.To), Overlap: r.Overlap, Rate: r.Rate},
		Status: r.Status, Total: r.Total, Begun: r.Begun, Succeeded: r.Succeeded, Failed: r.Failed,
		Next: orTime(r.Next), Created: toTime(r.Created), Finished: orTime(r.Finished),
	}
}

// BackfillBasis is everything that the times of a job's schedule depend on.
type BackfillBasis struct {
	Schedule string
	TimeZone string
	DST      carillon.DST
	Anchor   int64
}

// BackfillPlan says which times of a schedule lie in a range. Counting them may take long, so it is done
// outside the machine.
type BackfillPlan struct {
	Basis  BackfillBasis // of the job when the times were counted
	Anchor int64         // the instant that the times are counted from
	Total  uint64
	First  int64
}

// BackfillBasis returns what the times of a recurring job's schedule depend on.
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

// PlanBackfill finds the times of a schedule in the range of a valid spec.
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
		limit = math.MaxInt // counting is arithmetic
	}
	p.Total = uint64(s.Count(toTime(from-1), toTime(to), anchor, limit))
	if runs, limited := s.Repeats(); limited {
		// Without a start in its text the repeats count from the anchor. With one, there are no more times
		// than that anyway.
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

// extended returns the anchor of an @every, moved back by whole periods to before from. Any other schedule
// has no times before its anchor, or does not depend on it.
func extended(s *schedule.Schedule, anchor, from int64) int64 {
	every := s.Anchored() && s.Period() > 0 && strings.Contains(strings.ToLower(s.String()), "@every")
	if !every || from >= anchor {
		return anchor
	}
	period := int64(s.Period())
	back := (anchor - from) % period
	return from - (period-back)%period
}

// atLeast formats, for people, a count that stopped at limit.
func atLeast(n uint64, limit int) string {
	if n >= uint64(limit) {
		return fmt.Sprintf("%d or more", n)
	}
	return strconv.FormatUint(n, 10)
}

func show(ns int64) string { return toTime(ns).Format("2006-01-02T15:04:05Z07:00") }

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

// addBackfill brings an unfinished backfill into memory.
func (m *Machine) addBackfill(rec store.Backfill) *backfill {
	id := identity.Run{Partition: uint16(m.cfg.Partition), UID: rec.UID, Cause: carillon.CauseBackfill, Seq: rec.Seq}
	f := &backfill{id: id, rec: rec, timer: -1}
	m.fills.byID[id] = f
	m.fills.ofJob[rec.Key] = append(m.fills.ofJob[rec.Key], f)
	return f
}

// loadBackfills takes the records of unfinished backfills, at takeover. Records that cannot be decoded are
// left out and named in the error.
func (m *Machine) loadBackfills(records []store.MetaRecord, now int64) error {
	var damaged []error
	for _, r := range records {
		rec, err := codec.DecodeBackfill(r.Value)
		if err != nil {
			damaged = append(damaged, fmt.Errorf("backfill %x: %w", r.Key, err))
			continue
		}
		m.setBackfillWake(m.addBackfill(rec), now)
	}
	return errors.Join(damaged...)
}

// Backfill returns a backfill that is in memory, as all unfinished ones are; ok is false if it is not.
func (m *Machine) Backfill(id identity.Run) (b carillon.Backfill, ok bool) {
	f := m.fills.byID[id]
	if f == nil {
		return b, false
	}
	m.out.await(f.seq)
	return BackfillOf(&f.rec, m.cfg.Partition), !f.gone
}

// Backfills returns those of a job that are in memory.
func (m *Machine) Backfills(key carillon.Key) []carillon.Backfill {
	var out []carillon.Backfill
	for _, f := range m.fills.ofJob[key] {
		m.out.await(f.seq)
		out = append(out, BackfillOf(&f.rec, m.cfg.Partition))
	}
	for _, f := range m.fills.leaving {
		if f.rec.Key != key {
			continue
		}
		m.out.await(f.seq)
		if !f.gone {
			out = append(out, BackfillOf(&f.rec, m.cfg.Partition))
		}
	}
	return out
}

// SortBackfills sorts the newest first.
func SortBackfills(list []carillon.Backfill) {
	slices.SortFunc(list, func(a, b carillon.Backfill) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID)) })
}

// OpenRuns returns the records that the cancel of a backfill acts on: its job and its unfinished runs.
func (m *Machine) OpenRuns(id identity.Run) []store.Ref {
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

// CancelBackfill stops a backfill from making runs and cancels its unfinished ones: those in memory at once,
// the others as they are read. It may be repeated. ok is false if the backfill is not in memory.
func (m *Machine) CancelBackfill(now int64, id identity.Run) (b carillon.Backfill, ok bool) {
	f := m.fills.byID[id]
	if f != nil && !f.gone && f.rec.Status == carillon.BackfillRunning {
		f.rec.Status, f.rec.Next = carillon.BackfillCancelled, 0
		m.noteBackfill(f)
		m.advance(f, now)
	}
	return m.Backfill(id)
}

// SweepBackfills removes the records of ended backfills whose retention is over, and records that cannot be
// decoded.
func (m *Machine) SweepBackfills(records []store.MetaRecord, now int64) {
	for _, r := range records {
		if rec, err := codec.DecodeBackfill(r.Value); err != nil || rec.Expires <= now {
			m.out.small = append(m.out.small, store.MetaRecord{Kind: store.KindBackfill, Key: r.Key})
		}
	}
}
