package carillon

import (
	"cmp"
	"math"
	"strings"
	"time"
	"unicode/utf8"

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

// JobPage is one page; an empty NextPageToken marks the last one. With a label, or the phase scheduled, it
// may hold fewer jobs than were asked for, or none, and others follow all the same: what a page reads is
// bounded.
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

// RunQuery selects runs of a namespace in any state, of one job or of all. The zero value selects all that
// are not finished and then the finished ones.
type RunQuery struct {
	Namespace string
	Job       string // one job alone
	Prefix    string // jobs whose names begin with it
	// Statuses are those that are asked for; empty: all but RunScheduled. Due runs by triggers and backfills
	// that nobody has taken yet have that status, and are listed then, too.
	Statuses []RunStatus
	Queue    string // the name of the queue that they wait in or went through: see Queue
	Kind     string // of the target, as in [Queue]
	Label    string // of the job, "key" or "key=value"; of a finished run, as they were when it ended
	Error    string // text that the message of the last error contains, as it is written

	// From and Until bound when a finished run ended, and when another one is due: From is inclusive, Until
	// is exclusive. Zero: no bound.
	From  time.Time
	Until time.Time

	PageSize  int // default 100, at most MaxBatch
	PageToken string
}

// RunPage is one page; an empty NextPageToken marks the last one. It may hold fewer runs than were asked
// for, or none, and others follow all the same: what a page reads is bounded.
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
	return cmp.Or(err, checkLabelFilter(q.Label))
}

// checkLabelFilter checks what a list is filtered by: "key" or "key=value", or nothing.
func checkLabelFilter(label string) error {
	if label == "" {
		return nil
	}
	key, value, _ := strings.Cut(label, "=")
	if key == "" {
		return invalid("label", "%q has no key; write key or key=value", clip(label))
	}
	return WithField(checkLabel(key, value), "label")
}

// Validate returns an error about the first wrong field. A query that can never find anything is wrong. An
// empty namespace is the default one. The page token is checked by the node that made it.
func (q *RunQuery) Validate() error {
	if err := cmp.Or(checkQueried(q.Namespace, q.PageSize), q.checkJobs()); err != nil {
		return err
	}
	for _, s := range q.Statuses {
		if err := statusWords.check(uint8(s)); err != nil {
			return err
		}
	}
	return cmp.Or(checkPrintable("queue", q.Queue, MaxName), checkQueueKind(q.Kind, queueKinds),
		checkLabelFilter(q.Label), q.checkError(), q.checkTimes())
}

func (q *RunQuery) checkJobs() error {
	switch {
	case q.Job != "" && q.Prefix != "":
		return invalid("prefix", "a job is named, so there is nothing to select by a prefix; leave one of them out")
	case q.Job != "":
		return WithField(checkJobName(q.Job, MaxName), "job")
	}
	return checkCharacters("prefix", q.Prefix, MaxName)
}

func (q *RunQuery) checkError() error {
	switch {
	case len(q.Error) > MaxErrorFilter:
		return tooLarge("error", len(q.Error), MaxErrorFilter)
	case !utf8.ValidString(q.Error):
		return invalid("error", "it is not UTF-8")
	}
	return nil
}

func (q *RunQuery) checkTimes() error {
	for _, bound := range []struct {
		field string
		at    time.Time
	}{{"from", q.From}, {"until", q.Until}} {
		if !bound.at.IsZero() {
			if err := checkStorable(bound.field, bound.at); err != nil {
				return err
			}
		}
	}
	if !q.From.IsZero() && !q.Until.IsZero() && !q.Until.After(q.From) {
		return invalid("until", "%s is not after from, %s", show(q.Until), show(q.From))
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
	if q.Namespace != "" {
		if err := ValidateNamespace(q.Namespace); err != nil {
			return nil, err
		}
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
