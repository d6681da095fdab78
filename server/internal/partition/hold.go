package partition

import (
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
)

// Held says why runs of the partition do not go on. A reason that follows from the state of a job or of its
// run is complete. Of a run that waits in a queue, or for a permit, a partition knows where it waits; who
// serves the queue, and who holds the permits, others know (package engine, hold.go).
//
// A further reason belongs into holdOfRun if the run has begun, otherwise into holdOfNext.
type Held struct {
	contents *contents
	records  *Records
	permits  *Permits
}

// Hold is why a run does not go on, as far as its partition knows.
type Hold struct {
	carillon.Hold
	Queue delivery.Queue // where it waits for a consumer with room; zero: it does not
	Line  delivery.Line  // where it waits for a permit; zero: it does not
	Order int64          // its place among all lines of the limit; see [Limiter.Wait]
	// Before are the runs of this partition that go before it in lines of its limit, as far as they are in
	// memory, and First is the job of the first of them.
	Before int
	First  carillon.Key
}

// OfJob returns why the job's unfinished run does not go on, or else why its next run does not begin. It is
// nil if an attempt is in force and no other time waits for its end, or if nothing is to come.
func (h *Held) OfJob(key carillon.Key, now int64) *Hold {
	e := h.records.find(key)
	switch {
	case e == nil:
		return nil
	case e.place == running:
		return h.overlapped(e, now)
	case e.state.Run.Live:
		return h.ofWaiting(e, now)
	}
	return holdOfNext(e.job(), &e.state, h.nextOf(e), now)
}

// nextOf returns when the next run of a job is due.
func (h *Held) nextOf(e *entry) nextRun {
	switch {
	case e.state.Next == 0:
		return nextRun{}
	case h.records.specMissing(e):
		return nextRun{at: h.contents.nextDue(e)}
	}
	p := h.contents.timetableOf(e)
	next := p.shownNext()
	return nextRun{at: p.due(next), excluded: next == 0}
}

// OfRun returns why an unfinished run does not go on; nil if it is not in memory, or an attempt is in force.
func (h *Held) OfRun(id store.RunID, now int64) *Hold {
	e := h.records.live[id]
	if e == nil || e.place == running {
		return nil
	}
	return h.ofWaiting(e, now)
}

// ofWaiting is about a run without an attempt in force.
func (h *Held) ofWaiting(e *entry, now int64) *Hold {
	switch e.place {
	case aside:
		return h.inLine(e, e.line.key)
	case ready:
		return &Hold{Queue: *e.queue, Hold: carillon.Hold{Since: waitsSince(&e.state)}}
	}
	hold := holdOfRun(&e.state, now)
	if hold.Line != (delivery.Line{}) {
		return h.inLine(e, hold.Line)
	}
	return hold
}

// inLine is about a run that waits for a permit, in memory or in the store.
func (h *Held) inLine(e *entry, key delivery.Line) *Hold {
	hold := &Hold{Line: key, Order: e.order(), Hold: carillon.Hold{Since: waitsSince(&e.state)}}
	var first *waiting
	for _, l := range h.permits.ordered() {
		if l.key.Limit != key.Limit {
			continue
		}
		for i := range l.list {
			w := &l.list[i]
			if w.entry == e || !w.Before(waiting{e}) {
				continue
			}
			if hold.Before++; first == nil || w.Before(*first) {
				first = w
			}
		}
	}
	if first != nil {
		hold.First = first.ref.Key
	}
	return hold
}

// overlapped is about the next time of a job while an attempt is in force.
func (h *Held) overlapped(e *entry, now int64) *Hold {
	s := &e.state
	if s.Next == 0 || s.Paused || !allOpen(s) || h.records.specMissing(e) ||
		e.job().Overlap != carillon.OverlapSerial {
		return nil
	}
	next := h.contents.nextDue(e)
	if next > now || h.contents.timetableOf(e).excludes(s.Next) {
		return nil
	}
	return &Hold{Hold: carillon.Hold{Code: carillon.HoldOverlap, Since: toTime(next), Text: fmt.Sprintf(
		"the run of %s waits for the end of that of %s, which is in attempt %d: runs of the job do not overlap",
		clock(s.Next), clock(s.Run.Scheduled), s.Run.Attempt)}}
}

// StoredHold returns what a stored state says of why a job's unfinished run does not go on, or else why its
// next run does not begin. It is nil if the state does not tell. The job's status must say when its next run
// is due ([StatusOf], [ShowNext]).
func StoredHold(j *carillon.Job, s *store.State, now int64) *Hold {
	switch {
	case s.Run.Live && s.Phase == carillon.PhaseRunning:
		return nil
	case s.Run.Live:
		return holdOfRun(s, now)
	}
	next := nextRun{at: s.Next}
	if !s.Paused {
		next = nextRun{at: fromTime(j.Status.NextRun), excluded: j.Status.NextRun.IsZero()}
	}
	return holdOfNext(j, s, next, now)
}

// nextRun is when the next run of a job is due, or that calendars exclude all times in sight.
type nextRun struct {
	at       int64
	excluded bool
}

// holdOfNext is about a job without an unfinished run.
func holdOfNext(j *carillon.Job, s *store.State, run nextRun, now int64) *Hold {
	next := run.at
	switch {
	case s.Next == 0:
		return nil
	case s.Paused:
		return &Hold{Hold: carillon.Hold{Code: carillon.HoldPaused, Text: pausedText(j.Note)}}
	case run.excluded:
		return &Hold{Hold: carillon.Hold{Code: carillon.HoldNotDue,
			Text: "calendars exclude all times of its schedule that are in sight"}}
	case (s.Phase == carillon.PhaseWaiting || next <= now) && !allOpen(s):
		return &Hold{Hold: carillon.Hold{Code: carillon.HoldDependsOn, Since: waitedSince(s, next),
			Text: "it waits for a success of " + JobsText(waitingFor(s))}}
	case next > now:
		return &Hold{Hold: carillon.Hold{Code: carillon.HoldNotDue, Until: toTime(next),
			Text: "the next run is due at " + clock(next)}}
	}
	return starting(next)
}

// holdOfRun is about a run that has begun and has no attempt in force, as its state tells.
func holdOfRun(s *store.State, now int64) *Hold {
	r := &s.Run
	switch {
	case s.Phase == carillon.PhaseStaged:
		hold := &Hold{Hold: carillon.Hold{Since: waitsSince(s)}}
		q := delivery.ParseQueue(s.Queue)
		if line, limited := q.Line(); limited {
			hold.Line, hold.Order = line, int64(s.Priority)*int64(ageStep)+r.Due
		} else {
			hold.Queue = q
		}
		return hold
	case r.Due <= now:
		return starting(waitsSince(s).UnixNano())
	case r.Attempt == 0:
		return &Hold{Hold: carillon.Hold{Code: carillon.HoldNotDue, Until: toTime(r.Due),
			Text: "it is due at " + clock(r.Due)}}
	}
	hold := &Hold{Hold: carillon.Hold{Code: carillon.HoldRetrying, Until: toTime(r.Due)}}
	hold.Text = fmt.Sprintf("attempt %d was put off: the next one is due at %s", r.Attempt, clock(r.Due))
	if r.Message != "" && r.ReportedAt == 0 { // it is no progress report
		hold.Text = fmt.Sprintf("attempt %d was put off: %s; the next one is due at %s", r.Attempt,
			shortened(r.Message), clock(r.Due))
	}
	if n := len(r.Errors); n > 0 && r.Errors[n-1].Attempt == r.Attempt && !r.Errors[n-1].Redriven {
		failed := &r.Errors[n-1]
		hold.Since = failed.At
		hold.Text = fmt.Sprintf("attempt %d failed: %s; the next one is due at %s", r.Attempt,
			shortened(failed.Message), clock(r.Due))
	}
	return hold
}

// starting is about a run that nothing holds.
func starting(since int64) *Hold {
	return &Hold{Hold: carillon.Hold{Code: carillon.HoldStarting, Since: toTime(since),
		Text: "it is due, and about to be handed out"}}
}

// waitsSince returns since when a run that is due has waited: a time that was over when the job was created
// waits since then.
func waitsSince(s *store.State) time.Time { return waitedSince(s, s.Run.Due) }

func waitedSince(s *store.State, due int64) time.Time { return toTime(max(due, s.Created)) }

func pausedText(note string) string {
	if note == "" {
		return "the job is paused"
	}
	return "the job is paused: " + shortened(note)
}

// JobsText names some jobs in a sentence.
func JobsText(names []string) string {
	const most = 3
	quoted := make([]string, min(len(names), most))
	for i := range quoted {
		quoted[i] = fmt.Sprintf("%.64q", names[i])
	}
	switch left := len(names) - len(quoted); {
	case len(names) == 1:
		return "job " + quoted[0]
	case left > 0:
		return fmt.Sprintf("jobs %s and %d more", strings.Join(quoted, ", "), left)
	}
	last := len(quoted) - 1
	return "jobs " + strings.Join(quoted[:last], ", ") + " and " + quoted[last]
}

// shortened returns the beginning of a text, on one line.
func shortened(text string) string {
	const most = 200
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = clipped(text, most) + "…"
	}
	return text
}

// clock formats an instant for people.
func clock(ns int64) string { return toTime(ns).Format(time.RFC3339) }
