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
	DefaultAwaitTimeout  = time.Hour        // brokers whose runs a consumer completes
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

func checkStorable(field string, t time.Time) error {
	if !Storable(t) {
		return invalid(field, "%s is not between %s and %s", show(t), show(EarliestTime), show(LatestTime))
	}
	return nil
}

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
		return nil, invalid("time_zone", "%q differs from node to node; %s", name, hint)
	}
	if loc, ok := zones.Load(name); ok {
		return loc.(*time.Location), nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, invalid("time_zone", "%q is unknown; %s", clip(name), hint)
	}
	known, _ := zones.LoadOrStore(name, loc)
	return known.(*time.Location), nil
}

// ParseSchedule returns the job's parsed schedule; nil for a one-shot.
func (j *Job) ParseSchedule() (*schedule.Schedule, error) {
	if !j.Recurring() {
		return nil, nil
	}
	s, err := schedule.Parse(j.Schedule, schedule.Options{Location: j.Location(),
		Literal: j.Calendars.DST == DSTLiteral})
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
		return invalid(field, "%s at position %d: %s", e.Field, e.Pos, e.Msg)
	}
	return invalid(field, "%w", err)
}

// resolve returns the instant that w means at now, and whether it is relative to now.
func (w When) resolve(field string, now time.Time,
	loc *time.Location) (t time.Time, relative bool, err error) {
	t, relative, err = schedule.ParseTime(w.text, now, loc)
	if err != nil {
		return t, relative, scheduleError(field, err)
	}
	return t, relative, checkStorable(field, t)
}

// show formats t for people, in UTC.
func show(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Life returns from when to when a job that is put at now may run: from its due time, now if it has none, to
// its end of life, zero if there is none.
func (j *Job) Life(now time.Time) (anchor, expires time.Time, err error) {
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

// TimeoutOrDefault returns the limit of one attempt.
func (j *Job) TimeoutOrDefault() time.Duration {
	switch {
	case j.Timeout != 0:
		return j.Timeout
	case j.Target.leased():
		return DefaultWorkerTimeout
	case j.Target.AwaitsCompletion():
		return DefaultAwaitTimeout
	}
	return DefaultBrokerTimeout
}

// leased reports whether attempts hold a lease, which heartbeats extend.
func (t Target) leased() bool { return t.Worker != nil || t.Exec != nil || t.Dapr != nil }

// LeaseOrDefault returns how long an attempt lives without a heartbeat.
func (j *Job) LeaseOrDefault() time.Duration { return cmp.Or(j.Lease, DefaultLease) }

// CatchUpLimitOrDefault returns the most missed runs that [MisfireAll] makes up for.
func (j *Job) CatchUpLimitOrDefault() int { return cmp.Or(j.Misfire.Limit, DefaultCatchUpLimit) }

// HistoryRuns returns how many finished runs are kept; 0: none.
func (j *Job) HistoryRuns() int { return max(cmp.Or(j.History.Runs, DefaultHistoryRuns), 0) }

// HistoryKeep returns how long finished runs are kept.
func (j *Job) HistoryKeep() time.Duration { return cmp.Or(j.History.Keep, DefaultHistoryKeep) }
