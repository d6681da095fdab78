package carillon

import (
	"cmp"
	"math"
	"time"

	"github.com/carillonhq/carillon/schedule"
)

// DefaultPreview is how many times a preview shows by default.
const DefaultPreview = 10

// Preview returns when a job with this schedule would fire, strictly after q.From: at most q.Count times, in
// UTC. @every and ISO 8601 repeats count from q.Due if it is given, otherwise from q.From; runs of Rn/… up to
// q.From are used up.
func Preview(q PreviewQuery, now time.Time) ([]time.Time, error) {
	if err := checkNumber("count", cmp.Or(q.Count, DefaultPreview), 1, MaxBatch); err != nil {
		return nil, err
	}
	if q.From.IsZero() {
		q.From = now
	}
	j := Job{Schedule: q.Schedule, TimeZone: q.TimeZone, DST: q.DST, Due: q.Due}
	lim := DefaultBounds()
	switch {
	case q.Schedule == "" && q.Due.IsZero():
		return nil, Errorf(InvalidArgument, "schedule", "it is missing; write for example 0 2 * * *, @every 10s or R4/PT15M")
	case !Storable(q.From):
		return nil, Errorf(InvalidArgument, "from", "%s is not between %s and %s", show(q.From), show(EarliestTime), show(LatestTime))
	}
	if err := j.checkTiming(&lim); err != nil {
		return nil, err
	}
	anchor, _, err := j.Life(q.From)
	if err != nil {
		return nil, err
	}
	sched, err := j.ParseSchedule()
	if err != nil {
		return nil, err
	}
	return upcoming(sched, q, anchor), nil
}

// upcoming returns the times of a schedule, nil for a one-shot, after q.From.
func upcoming(s *schedule.Schedule, q PreviewQuery, anchor time.Time) []time.Time {
	if s == nil {
		if anchor.After(q.From) {
			return []time.Time{anchor}
		}
		return []time.Time{}
	}
	after, count := q.From, cmp.Or(q.Count, DefaultPreview)
	if n, limited := s.Repeats(); limited && !q.Due.IsZero() {
		count = min(count, remaining(s, n, anchor, q.From))
	} else if limited && n < uint64(count) {
		count = int(n)
	}
	if !q.Due.IsZero() && anchor.After(after) {
		after = anchor.Add(-1) // the due time itself may be the first
	}
	times := make([]time.Time, 0, count)
	for len(times) < count {
		next, ok := s.Next(after, anchor)
		if !ok {
			break
		}
		times, after = append(times, next), next
	}
	return times
}

// remaining returns how many of n runs that began at the anchor are left after a time.
func remaining(s *schedule.Schedule, n uint64, anchor, after time.Time) int {
	all := int(min(n, math.MaxInt))
	return all - s.Count(anchor.Add(-1), after, anchor, all)
}
