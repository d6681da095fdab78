package plan

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
)

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
// the cause [carillon.ErrEndsFirst] if its life ends before its first run. Except for Dapr's jobs, it must
// also end after now.
func FirstRun(j *carillon.Job, sched *schedule.Schedule,
	now time.Time) (anchor, next, expires time.Time, err error) {
	now = now.Round(0).UTC()
	var none time.Time
	anchor, expires, err = j.Life(now)
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
		return none, none, none, carillon.Errorf(carillon.InvalidArgument, "ttl",
			"the job's life ended at %s, which is past", show(expires))
	case next.After(expires):
		return none, none, none, carillon.Errorf(carillon.InvalidArgument, "ttl",
			"%w: it ends at %s, the run is at %s", carillon.ErrEndsFirst, show(expires), show(next))
	}
	return anchor, next, expires, nil
}

// firstMatch returns the first time of a schedule as [FirstRun] defines it.
func firstMatch(s *schedule.Schedule, anchor time.Time, dueGiven bool, now time.Time) (time.Time, error) {
	after := now
	if dueGiven {
		after = anchor.Add(-1) // the due time itself may match
	}
	next, ok := s.Next(after, anchor)
	switch {
	case !ok || next.After(carillon.LatestTime):
		return time.Time{}, carillon.Errorf(carillon.InvalidArgument, "schedule",
			"it never fires after %s", show(after))
	case next.Before(now):
		next, _ = s.Last(now, anchor) // there is one: next
	}
	return next, nil
}

// EffectiveRepeats returns the most runs that the job's schedule may begin: the lower of Repeats and of n in
// Rn/…; 0: no limit.
func EffectiveRepeats(j *carillon.Job, sched *schedule.Schedule) uint64 {
	if sched == nil {
		return j.Repeats
	}
	n, limited := sched.Repeats()
	if !limited || (j.Repeats != 0 && j.Repeats < n) {
		return j.Repeats
	}
	return n
}

// show formats t for people, in UTC.
func show(t time.Time) string { return t.UTC().Format(time.RFC3339) }
