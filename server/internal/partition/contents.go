package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
)

// contents are the specs in memory: what they take, and what is decoded of them.
type contents struct {
	cfg       *Config
	out       *builder
	bytes     int // of encoded specs
	schedules map[scheduleKey]*schedule.Schedule
}

// scheduleKey is everything that a parsed schedule depends on. Jobs with the same key share one.
type scheduleKey struct {
	text, zone string
	dst        carillon.DST
}

func newContents(cfg *Config, out *builder) *contents {
	return &contents{cfg: cfg, out: out, schedules: map[scheduleKey]*schedule.Schedule{}}
}

// full reports whether the specs take up the memory that is meant for them.
func (c *contents) full() bool { return c.bytes >= c.cfg.WindowBytes }

// set gives e its encoded spec, nil for none.
func (c *contents) set(e *entry, spec []byte) {
	c.bytes += len(spec) - len(e.spec)
	e.spec, e.decoded, e.sched = spec, nil, nil
}

// lighten drops the spec of a run that has been handed out: a long one when memory for specs is short, and
// any whose completion is awaited, since nothing bounds how many those are. It is read again when the attempt
// ends. An attempt that has yet to be handed out needs it for its lease and its timeout.
func (c *contents) lighten(e *entry) {
	if e.attempt.pending != 0 {
		return
	}
	awaited := e.attempt.awaited
	if p := e.parent; !e.own() && p != nil && p.children == 1 && p.place == idle {
		e = p
	} else if e.children > 0 {
		return
	}
	if (awaited || len(e.spec) > InlineSpec && c.full()) && !c.out.dirty(e) {
		c.set(e, nil)
	}
}

// scheduleOf returns the parsed schedule of a recurring job. It is nil for a one-shot, and if the schedule
// can no longer be parsed.
func (c *contents) scheduleOf(e *entry) *schedule.Schedule {
	if e.sched != nil {
		return e.sched
	}
	j := e.job()
	if !j.Recurring() {
		return nil
	}
	key := scheduleKey{j.Schedule, j.TimeZone, j.Calendars.DST}
	s, ok := c.schedules[key]
	if !ok {
		var err error
		if s, err = j.ParseSchedule(); err != nil {
			// It was valid when it was put; a time zone that was removed must stop the schedule, not the
			// node.
			return nil
		}
		if len(c.schedules) >= maxSharedSchedules {
			clear(c.schedules)
		}
		c.schedules[key] = s
	}
	e.sched = s
	return s
}

// filterOf returns what leaves out times of a job, with the calendars as they are now; nil if nothing does.
func (c *contents) filterOf(j *carillon.Job) *schedule.Filter {
	return j.Calendars.Filter(func(name string) *schedule.Dates { return c.cfg.Calendars(j.Namespace, name) })
}

// maxSharedSchedules bounds the cache of parsed schedules.
const maxSharedSchedules = 4096

// unscheduled reports whether e is a recurring job whose schedule can no longer be parsed.
func (c *contents) unscheduled(e *entry) bool { return c.scheduleOf(e) == nil && e.job().Recurring() }

// nextDue returns when the next scheduled time is due; there must be one. Without the spec in memory it is a
// lower bound.
func (c *contents) nextDue(e *entry) int64 {
	if e.spec == nil || e.state.Jitter == 0 {
		return e.state.Next
	}
	return c.timetableOf(e).due(e.state.Next)
}
