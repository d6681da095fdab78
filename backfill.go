package carillon

import "time"

// BackfillSpec says which past times of a schedule to run a job at, and how.
type BackfillSpec struct {
	From time.Time // the first time, inclusive
	To   time.Time // the last time, inclusive; not after now
	// Overlap is OverlapSerial (default: one run at a time, in order) or OverlapAllow (each begins without waiting for the
	// one before).
	Overlap Overlap
	// Rate is the most runs begun in a second, also in fractions; 0 = no limit but MaxPending unfinished ones.
	Rate float64
}

// BackfillStatus is where a backfill stands.
type BackfillStatus uint8

// The statuses.
const (
	BackfillRunning BackfillStatus = iota
	BackfillDone                   // every run has ended
	BackfillCancelled
)

// Backfill is runs of a job at the past times of its schedule, beside it: each is a run of its own, with cause backfill, and
// goes by the job as it stands when it is attempted. It goes on while the job is paused, and ends with the job.
type Backfill struct {
	ID        string
	Namespace string
	Job       string
	Spec      BackfillSpec
	Status    BackfillStatus
	Total     uint64    // scheduled times in the stretch
	Begun     uint64    // runs made
	Succeeded uint64    // of those
	Failed    uint64    // of those: failed, dead or cancelled
	Next      time.Time // the next scheduled time to be run; zero = none is left
	Created   time.Time
	Finished  time.Time // zero = it goes on
}

// Bounds of a backfill.
const (
	MaxBackfillRuns = 1_000_000 // scheduled times in one
	MaxBackfillRate = 100_000.0 // per second
)

// Validate names the first field that is wrong.
func (s *BackfillSpec) Validate(now time.Time) error {
	switch {
	case s.From.IsZero() || !Storable(s.From):
		return Errorf(InvalidArgument, "from", "it is missing or out of range; write a time such as %s", show(now.Add(-24*time.Hour)))
	case s.To.IsZero() || !Storable(s.To):
		return Errorf(InvalidArgument, "to", "it is missing or out of range; write a time such as %s", show(now))
	case s.To.Before(s.From):
		return Errorf(InvalidArgument, "to", "%s is before from, %s", show(s.To), show(s.From))
	case s.To.After(now):
		return Errorf(InvalidArgument, "to", "%s is yet to come; a backfill runs what is past", show(s.To))
	case s.Overlap != OverlapSerial && s.Overlap != OverlapAllow:
		return Errorf(InvalidArgument, "overlap", "%q makes no sense for a backfill; use serial or allow", s.Overlap)
	case !(s.Rate >= 0 && s.Rate <= MaxBackfillRate): // also when it is not a number
		return Errorf(InvalidArgument, "rate", "%v is not between 0 and %v runs a second", s.Rate, MaxBackfillRate)
	}
	return nil
}
