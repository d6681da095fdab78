package carillon

import (
	"cmp"
	"context"
	"time"
)

// Timetables says when stored jobs run next.
type Timetables interface {
	// ListTimes returns the next times at which the schedule of a job begins runs: see [Timetable].
	ListTimes(ctx context.Context, q TimesQuery) (Timetable, error)
}

// TimesQuery asks for the next times of a job.
type TimesQuery struct {
	Key   Key
	Count int       // default 10, at most MaxBatch
	Until time.Time // only times before it; zero: all
}

// DefaultTimes is how many times a [TimesQuery] asks for if it does not say.
const DefaultTimes = 10

// Validate returns an error about the first wrong field.
func (q *TimesQuery) Validate() error {
	err := cmp.Or(q.Key.Validate(), checkNumber("count", q.Most(), 1, MaxBatch))
	if err == nil && !q.Until.IsZero() {
		err = checkStorable("until", q.Until)
	}
	return err
}

// Most returns how many times are asked for.
func (q *TimesQuery) Most() int { return cmp.Or(q.Count, DefaultTimes) }

// Timetable says when the schedule of a job begins its next runs, if each run ends before the next one is due
// and the job's node serves it all the time. It is computed from the job as it is, by what runs the job. What
// a put, a pause or a calendar changes later is not in it.
type Timetable struct {
	Times []PlannedTime // in order
	End   *TimesEnd     // why no time follows the last one; nil: others follow
	// Excluded is a time of the schedule before the first of Times that calendars leave out: the next one from
	// now. nil: there is none.
	Excluded *ExcludedTime
}

// PlannedTime is one of the next times of a job.
type PlannedTime struct {
	Scheduled time.Time // the time that the schedule has
	Due       time.Time // when the run is due: as much later as Job.Jitter says for this time
	// Past: it is due already and waits; [JobStatus.Hold] says for what. What became of those that were due
	// before it, the job's rules of misfires and overlap say.
	Past   bool
	Offset time.Duration // from UTC in the job's time zone, then
	// Shift is by how much Offset differs from that of the time before it, or of now for the first: not 0 after
	// clocks have changed.
	Shift time.Duration
}

// ExcludedTime is a time of a schedule that does not run because of calendars.
type ExcludedTime struct {
	At time.Time
	By []string // those of Except that leave it out; empty: it is in none of Only
}

// TimesEnd is why no time follows.
type TimesEnd struct {
	Code string // one of those below; later versions may have more
	Text string // a sentence for people
}

// The codes of ends.
const (
	EndOnce       = "once"       // the job runs once
	EndRepeats    = "repeats"    // its schedule begins no more runs than this
	EndTTL        = "ttl"        // its life ends
	EndSchedule   = "schedule"   // its schedule has no later time
	EndCalendars  = "calendars"  // calendars leave out all that are in sight
	EndPaused     = "paused"     // it is paused
	EndDone       = "done"       // it has begun all its runs, or its life was over, before now
	EndUnreadable = "unreadable" // this node cannot read its schedule
)
