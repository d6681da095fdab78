package grpcapi

import (
	"errors"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
)

// defaultPreview is how many times a preview shows if nobody says.
const defaultPreview = 10

// preview says when a schedule would fire, strictly after q.From.
func preview(q carillon.PreviewQuery, now time.Time) ([]time.Time, error) {
	if q.From.IsZero() {
		q.From = now
	}
	if q.Count == 0 {
		q.Count = defaultPreview
	}
	if q.Count < 0 || q.Count > carillon.MaxBatch {
		return nil, carillon.Errorf(carillon.InvalidArgument, "count", "%d is out of range 1-%d", q.Count, carillon.MaxBatch)
	}
	zone, err := time.LoadLocation(q.TimeZone)
	if err != nil || q.TimeZone == "Local" {
		return nil, carillon.Errorf(carillon.InvalidArgument, "time_zone", "%q is not an IANA time zone such as Europe/London", q.TimeZone)
	}
	after, anchor := q.From, q.From
	if !q.Due.IsZero() {
		due, _, err := schedule.ParseTime(q.Due.String(), q.From, zone)
		if err != nil {
			return nil, scheduleError("due_time", err)
		}
		if q.Schedule == "" {
			return []time.Time{due}, nil
		}
		anchor, after = due, later(q.From, due.Add(-1))
	}
	s, err := schedule.Parse(q.Schedule, schedule.Options{Location: zone, Literal: q.DST == carillon.DSTLiteral})
	if err != nil {
		return nil, scheduleError("schedule", err)
	}
	return upcoming(s, after, anchor, q.Count), nil
}

// upcoming is at most count times of s after a time; a repeat without a start is counted here.
func upcoming(s *schedule.Schedule, after, anchor time.Time, count int) []time.Time {
	if n, ok := s.Repeats(); ok && n < uint64(count) {
		count = int(n)
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

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// scheduleError is the schedule's own words, position included, for a field.
func scheduleError(field string, err error) error {
	if e, ok := errors.AsType[*schedule.Error](err); ok {
		return carillon.Errorf(carillon.InvalidArgument, field, "%s at position %d: %s", e.Field, e.Pos, e.Msg)
	}
	return carillon.Errorf(carillon.InvalidArgument, field, "%w", err)
}
