package carillon

import "time"

// BackfillSpec selects the past times of a schedule to run a job at, and how.
type BackfillSpec struct {
	From time.Time // the first time, inclusive
	To   time.Time // the last time, inclusive; not after now
	// Overlap is OverlapSerial (default: one run at a time, in order) or OverlapAllow (each begins without
	// waiting for the previous one).
	Overlap Overlap
	// Rate is the most runs begun per second, fractions allowed; 0: no limit but MaxPending unfinished ones.
	Rate float64
}

// BackfillStatus is the state of a backfill.
type BackfillStatus uint8

// The statuses.
const (
	BackfillRunning BackfillStatus = iota
	BackfillDone                   // every run has ended
	BackfillCancelled
)

// Backfill runs a job at past times of its schedule, beside the schedule. Each run is its own, with cause
// backfill, and uses the job's content at the time of its attempt. A backfill goes on while the job is
// paused, and ends with the job.
type Backfill struct {
	ID        string
	Namespace string
	Job       string
	Spec      BackfillSpec
	Status    BackfillStatus
	Total     uint64    // scheduled times from Spec.From to Spec.To
	Begun     uint64    // runs made
	Succeeded uint64    // of those
	Failed    uint64    // of those: failed, dead or cancelled
	Next      time.Time // the next scheduled time to run; zero: none left
	Created   time.Time
	Finished  time.Time // zero: it goes on
}

// Bounds of a backfill.
const (
	MaxBackfillRuns = 1_000_000 // scheduled times in one backfill
	MaxBackfillRate = 100_000.0 // per second
)

// Validate returns an error about the first wrong field.
func (s *BackfillSpec) Validate(now time.Time) error {
	switch {
	case s.From.IsZero() || !Storable(s.From):
		return invalid("from", "it is missing or out of range; write a time such as %s",
			show(now.Add(-24*time.Hour)))
	case s.To.IsZero() || !Storable(s.To):
		return invalid("to", "it is missing or out of range; write a time such as %s", show(now))
	case s.To.Before(s.From):
		return invalid("to", "%s is before from, %s", show(s.To), show(s.From))
	case s.To.After(now):
		return invalid("to", "%s is yet to come; a backfill runs what is past", show(s.To))
	case s.Overlap != OverlapSerial && s.Overlap != OverlapAllow:
		return invalid("overlap", "%q makes no sense for a backfill; use serial or allow", s.Overlap)
	case !(s.Rate >= 0 && s.Rate <= MaxBackfillRate): // also when it is not a number
		return invalid("rate", "%v is not between 0 and %v runs a second", s.Rate, MaxBackfillRate)
	}
	return nil
}
