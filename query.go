package carillon

import (
	"cmp"
	"math"
	"strings"
	"time"

	"github.com/carillonhq/carillon/schedule"
)

// JobQuery selects jobs of a namespace in name order.
type JobQuery struct {
	Namespace string
	Prefix    string
	Label     string // "key" or "key=value"
	Phase     *Phase
	PageSize  int // default 100, at most MaxBatch
	PageToken string
}

// JobPage is one page; an empty NextPageToken marks the last one.
type JobPage struct {
	Jobs          []Job
	NextPageToken string
}

// NamespaceQuery selects a page of namespaces, in name order.
type NamespaceQuery struct {
	PageSize  int // default 100, at most MaxBatch
	PageToken string
}

// NamespacePage is one page; an empty NextPageToken marks the last one. It may hold fewer namespaces than
// were asked for, or none, and others follow all the same.
type NamespacePage struct {
	Namespaces    []Namespace
	NextPageToken string
}

// RunQuery selects finished runs, newest first.
type RunQuery struct {
	Namespace string
	Job       string // empty: across jobs, for which Status must be RunDead
	Status    *RunStatus
	PageSize  int // default 100, at most MaxBatch
	PageToken string
}

// RunPage is one page; an empty NextPageToken marks the last one.
type RunPage struct {
	Runs          []Run
	NextPageToken string
}

// PreviewQuery asks when a schedule would fire.
type PreviewQuery struct {
	Schedule string
	TimeZone string
	DST      DST
	// Calendars of the namespace, as in a job; what they leave out is not shown.
	Namespace    string
	Except, Only []string
	From         time.Time // strictly after; also the anchor of @every and ISO repeats; zero: now
	Due          When
	Count        int // default 10, at most MaxBatch
}

// Validate returns an error about the first wrong field. A query that can never find anything is wrong. An
// empty namespace is the default one. The page token is checked by the node that made it.
func (q *JobQuery) Validate() error {
	err := cmp.Or(checkQueried(q.Namespace, q.PageSize), checkCharacters("prefix", q.Prefix, MaxName))
	if err == nil && q.Phase != nil {
		err = phaseWords.check(uint8(*q.Phase))
	}
	return cmp.Or(err, q.checkLabel())
}

func (q *JobQuery) checkLabel() error {
	if q.Label == "" {
		return nil
	}
	key, value, _ := strings.Cut(q.Label, "=")
	if key == "" {
		return invalid("label", "%q has no key; write key or key=value", clip(q.Label))
	}
	return WithField(checkLabel(key, value), "label")
}

// Validate returns an error about the first wrong field. A query that can never find anything is wrong. An
// empty namespace is the default one. The page token is checked by the node that made it.
func (q *RunQuery) Validate() error {
	if err := checkQueried(q.Namespace, q.PageSize); err != nil {
		return err
	}
	if q.Job != "" {
		if err := WithField(checkJobName(q.Job, MaxName), "job"); err != nil {
			return err
		}
	}
	switch {
	case q.Status != nil && !q.Status.Finished():
		return invalid(statusWords.field,
			"%q is not the status of a finished run, and only those are listed; use one of %s",
			*q.Status, strings.Join(statusWords.list[RunSucceeded:], ", "))
	case q.Job == "" && (q.Status == nil || *q.Status != RunDead):
		return invalid(statusWords.field,
			"runs across jobs can be listed with status dead only; name a job for the others")
	}
	return nil
}

// checkQueried checks the fields that all lists have.
func checkQueried(namespace string, pageSize int) error {
	if namespace != "" {
		if err := ValidateNamespace(namespace); err != nil {
			return err
		}
	}
	if pageSize < 0 || pageSize > MaxBatch {
		return invalid("page_size", "%d is not between 1 and %d", pageSize, MaxBatch)
	}
	return nil
}

// Validate returns an error about the first wrong field. The page token is checked by the node that made it.
func (q *NamespaceQuery) Validate() error { return checkQueried("", q.PageSize) }

// DefaultPreview is how many times a preview shows by default.
const DefaultPreview = 10

// Preview returns when a job with this schedule would fire, strictly after q.From: at most q.Count times, in
// UTC. @every and ISO 8601 repeats count from q.Due if it is given, otherwise from q.From; runs of Rn/… up to
// q.From are used up. calendars are those that q names.
func Preview(q PreviewQuery, now time.Time, calendars ...Calendar) ([]time.Time, error) {
	if err := checkNumber("count", cmp.Or(q.Count, DefaultPreview), 1, MaxBatch); err != nil {
		return nil, err
	}
	if q.From.IsZero() {
		q.From = now
	}
	j := Job{Schedule: q.Schedule, TimeZone: q.TimeZone, Due: q.Due,
		Calendars: CalendarRules{q.DST, q.Except, q.Only}}
	lim := DefaultBounds()
	if q.Schedule == "" && q.Due.IsZero() {
		return nil, invalid("schedule", "it is missing; write for example 0 2 * * *, @every 10s or R4/PT15M")
	}
	if err := cmp.Or(checkStorable("from", q.From), j.checkTiming(&lim)); err != nil {
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
	filter, err := j.Calendars.among(calendars)
	if err != nil {
		return nil, err
	}
	return upcoming(sched, filter, q, anchor), nil
}

// upcoming returns the times of a schedule, nil for a one-shot, after q.From.
func upcoming(s *schedule.Schedule, f *schedule.Filter, q PreviewQuery, anchor time.Time) []time.Time {
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
		next, ok := f.Next(s, after, anchor)
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
