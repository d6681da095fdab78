package carillon

import (
	"cmp"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/carillonhq/carillon/schedule"
)

// Defaults of a job's fields; those of failure policies are in failure.go.
const (
	DefaultBrokerTimeout = 30 * time.Second // http and brokers
	DefaultWorkerTimeout = 24 * time.Hour   // worker and exec
	DefaultLease         = 2 * time.Minute
	DefaultCatchUpLimit  = 1000
	DefaultHistoryRuns   = 20
	DefaultHistoryKeep   = 72 * time.Hour
)

// Times are stored as nanoseconds since 1970, where 0 means "none". So a job can be due, and end, from
// EarliestTime to LatestTime.
var (
	EarliestTime = time.Unix(0, 1).UTC()
	LatestTime   = time.Unix(0, math.MaxInt64).UTC() // in April 2262
)

// Storable reports whether t lies from [EarliestTime] to [LatestTime].
func Storable(t time.Time) bool { return !t.Before(EarliestTime) && !t.After(LatestTime) }

// Normalize changes the job to the form in which it is stored: with a namespace and without a status.
// Everything else stays as written, so that two puts can be compared.
func (j *Job) Normalize() {
	j.Namespace = cmp.Or(j.Namespace, DefaultNamespace)
	j.Status = nil
}

// Location returns the job's time zone, UTC if it has none or an unknown one.
func (j *Job) Location() *time.Location {
	loc, err := location(j.TimeZone)
	if err != nil {
		return time.UTC
	}
	return loc
}

// zones caches zones by name, as each load reads and parses a file. It never has more entries than there are
// zones.
var zones sync.Map // string → *time.Location

func location(name string) (*time.Location, error) {
	const hint = "write an IANA name such as Europe/London, or nothing for UTC"
	switch name {
	case "", "UTC":
		return time.UTC, nil
	case "Local":
		return nil, Errorf(InvalidArgument, "time_zone", "%q differs from node to node; %s", name, hint)
	}
	if loc, ok := zones.Load(name); ok {
		return loc.(*time.Location), nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, Errorf(InvalidArgument, "time_zone", "%q is unknown; %s", clip(name), hint)
	}
	known, _ := zones.LoadOrStore(name, loc)
	return known.(*time.Location), nil
}

// ParseSchedule returns the job's parsed schedule; nil for a one-shot.
func (j *Job) ParseSchedule() (*schedule.Schedule, error) {
	if !j.Recurring() {
		return nil, nil
	}
	s, err := schedule.Parse(j.Schedule, schedule.Options{Location: j.Location(), Literal: j.DST == DSTLiteral})
	if err != nil {
		return nil, scheduleError("schedule", err)
	}
	if _, err := location(j.TimeZone); err != nil {
		return nil, err // in UTC it would be another schedule
	}
	return s, nil
}

// scheduleError returns an error of package schedule, with its position, for a field.
func scheduleError(field string, err error) error {
	if e, ok := errors.AsType[*schedule.Error](err); ok {
		return Errorf(InvalidArgument, field, "%s at position %d: %s", e.Field, e.Pos, e.Msg)
	}
	return Errorf(InvalidArgument, field, "%w", err)
}

// resolve returns the instant that w means at now, and whether it is relative to now.
func (w When) resolve(field string, now time.Time, loc *time.Location) (t time.Time, relative bool, err error) {
	t, relative, err = schedule.ParseTime(w.text, now, loc)
	switch {
	case err != nil:
		return t, relative, scheduleError(field, err)
	case !Storable(t):
		return t, relative, Errorf(InvalidArgument, field, "%s is not between %s and %s", show(t), show(EarliestTime), show(LatestTime))
	}
	return t, relative, nil
}

// show formats t for people, in UTC.
func show(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// FirstRun computes when a valid job that is put at now runs first. sched is its parsed schedule, nil for a
// one-shot.
//
// anchor is what @every and ISO 8601 repeats count from: the due time, or now if none is given. next is
//   - for a one-shot: its due time, which may be past;
//   - for a schedule without a due time: its first time after now (so one period after now if it is
//     anchored);
//   - for a schedule with one: its first time from then on. If that is past, the newest one up to now, so
//     that the job fires once, at once, and missed nothing;
//   - for a Dapr job with a schedule and a due time: the due time, even if it is past, whether or not the
//     schedule has it.
//
// expires is the end of the job's life, inclusive; zero: none. A job that could never run is refused: with
// the cause [ErrEndsFirst] if its life ends before its first run. Except for Dapr's jobs, it must also end
// after now.
func FirstRun(j *Job, sched *schedule.Schedule, now time.Time) (anchor, next, expires time.Time, err error) {
	now = now.Round(0).UTC()
	var none time.Time
	anchor, expires, err = j.life(now)
	if err != nil {
		return none, none, none, err
	}
	next = anchor
	if sched != nil && (j.Target.Dapr == nil || j.Due.IsZero()) {
		if next, err = firstMatch(sched, anchor, !j.Due.IsZero(), now); err != nil {
			return none, none, none, err
		}
	}
	switch {
	case expires.IsZero():
	case expires.Before(now) && j.Target.Dapr == nil:
		return none, none, none, Errorf(InvalidArgument, "ttl", "the job's life ended at %s, which is past", show(expires))
	case next.After(expires):
		return none, none, none, endsTooSoon(expires, next)
	}
	return anchor, next, expires, nil
}

// life returns from when to when a job that is put at now may run; expires is zero if there is no end.
func (j *Job) life(now time.Time) (anchor, expires time.Time, err error) {
	loc := j.Location()
	anchor = now
	if !j.Due.IsZero() {
		if anchor, _, err = j.Due.resolve("due_time", now, loc); err != nil {
			return anchor, expires, err
		}
	}
	if !j.TTL.IsZero() {
		expires, _, err = j.TTL.resolve("ttl", anchor, loc)
	}
	return anchor, expires, err
}

// ErrEndsFirst is the cause, for errors.Is, of the error about a job whose life would end before its first
// run. Like every cause it does not cross the wire.
var ErrEndsFirst = errors.New("the job's life ends before its first run")

func endsTooSoon(expires, first time.Time) error {
	e := Errorf(InvalidArgument, "ttl", "the job's life ends at %s, before its first run at %s", show(expires), show(first))
	e.Err = ErrEndsFirst
	return e
}

// firstMatch returns the first time of a schedule as [FirstRun] defines it.
func firstMatch(s *schedule.Schedule, anchor time.Time, dueGiven bool, now time.Time) (time.Time, error) {
	after := now
	if dueGiven {
		after = anchor.Add(-1) // the due time itself may match
	}
	next, ok := s.Next(after, anchor)
	switch {
	case !ok || next.After(LatestTime):
		return time.Time{}, Errorf(InvalidArgument, "schedule", "it never fires after %s", show(after))
	case next.Before(now):
		next, _ = s.Last(now, anchor) // there is one: next
	}
	return next, nil
}

// EffectiveRepeats returns the most runs that the job's schedule may begin: the lower of Repeats and of n in
// Rn/…; 0: no limit.
func EffectiveRepeats(j *Job, sched *schedule.Schedule) uint64 {
	if sched == nil {
		return j.Repeats
	}
	n, limited := sched.Repeats()
	if !limited || (j.Repeats != 0 && j.Repeats < n) {
		return j.Repeats
	}
	return n
}

// TimeoutOrDefault returns the limit of one attempt.
func (j *Job) TimeoutOrDefault() time.Duration {
	switch {
	case j.Timeout != 0:
		return j.Timeout
	case j.Target.leased():
		return DefaultWorkerTimeout
	}
	return DefaultBrokerTimeout
}

// leased reports whether attempts hold a lease, which heartbeats extend.
func (t Target) leased() bool { return t.Worker != nil || t.Exec != nil || t.Dapr != nil }

// LeaseOrDefault returns how long an attempt lives without a heartbeat.
func (j *Job) LeaseOrDefault() time.Duration { return cmp.Or(j.Lease, DefaultLease) }

// CatchUpLimitOrDefault returns the most missed runs that [MisfireAll] makes up for.
func (j *Job) CatchUpLimitOrDefault() int { return cmp.Or(j.CatchUpLimit, DefaultCatchUpLimit) }

// HistoryRuns returns how many finished runs are kept; 0: none.
func (j *Job) HistoryRuns() int { return max(cmp.Or(j.History.Runs, DefaultHistoryRuns), 0) }

// HistoryKeep returns how long finished runs are kept.
func (j *Job) HistoryKeep() time.Duration { return cmp.Or(j.History.Keep, DefaultHistoryKeep) }
