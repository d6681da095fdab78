package partition

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
)

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
	Basis BackfillBasis // of the job when the times were counted
	Total uint64
	First int64
}

// parse returns the schedule, whose @every have times before the anchor as well.
func (b BackfillBasis) parse() (*schedule.Schedule, error) {
	j := carillon.Job{Schedule: b.Schedule, TimeZone: b.TimeZone, Calendars: carillon.CalendarRules{DST: b.DST}}
	s, err := j.ParseSchedule()
	if err != nil {
		return nil, err
	}
	return s.Extended(toTime(b.Anchor)), nil
}

// PlanBackfill finds the times of a schedule in the range of a valid spec, without those that the filter
// leaves out.
func PlanBackfill(basis BackfillBasis, filter *schedule.Filter,
	spec carillon.BackfillSpec) (BackfillPlan, error) {
	s, err := basis.parse()
	if err != nil {
		return BackfillPlan{}, err
	}
	from, to := fromTime(spec.From), fromTime(spec.To)
	p, anchor := BackfillPlan{Basis: basis}, toTime(basis.Anchor)
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
		return p, carillon.Errorf(carillon.InvalidArgument, "to",
			"%s scheduled times are more than the %d of one backfill; shorten the stretch",
			atLeast(p.Total, limit), carillon.MaxBackfillRuns)
	}
	if filter != nil {
		err = p.leaveOut(s, filter, from, to)
	}
	return p, err
}

// leaveOut leaves out of the plan what a filter leaves out.
func (p *BackfillPlan) leaveOut(s *schedule.Schedule, filter *schedule.Filter, from, to int64) error {
	anchor := toTime(p.Basis.Anchor)
	if runs, limited := s.Repeats(); limited {
		to = endOfRepeats(s, anchor, int(min(runs, math.MaxInt-1)), to)
	}
	first, ok := filter.Next(s, toTime(from-1), anchor)
	if p.First = fromTime(first); !ok || p.First > to {
		return carillon.Errorf(carillon.InvalidArgument, "from",
			"the job's calendars exclude all times of its schedule from %s to %s", show(from), show(to))
	}
	p.Total = uint64(filter.Count(s, toTime(from-1), toTime(to), anchor, carillon.MaxBackfillRuns))
	return nil
}

// endOfRepeats returns the latest instant, to at most, up to which no more than n times of a schedule have
// come since the anchor.
func endOfRepeats(s *schedule.Schedule, anchor time.Time, n int, to int64) int64 {
	over := func(t int64) bool { return s.Count(anchor.Add(-1), toTime(t), anchor, n+1) > n }
	if !over(to) {
		return to
	}
	within := fromTime(anchor) - 1
	for to-within > 1 {
		if mid := within + (to-within)/2; over(mid) {
			to = mid
		} else {
			within = mid
		}
	}
	return within
}

// atLeast formats, for people, a count that stopped at limit.
func atLeast(n uint64, limit int) string {
	if n >= uint64(limit) {
		return fmt.Sprintf("%d or more", n)
	}
	return strconv.FormatUint(n, 10)
}

func show(ns int64) string { return toTime(ns).Format("2006-01-02T15:04:05Z07:00") }
