package partition

import (
	"cmp"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
)

// Config configures a [Machine]. Zero values get the defaults below, where there are any.
type Config struct {
	Partition int
	Term      store.Term  // the ownership term of this machine
	MACKey    []byte      // authenticates tokens
	Ended     []EndedTerm // earlier terms that did not end in order
	// Since is the instant (UTC ns) from which on the partition has been owned without a gap. Only earlier
	// times can be missed.
	Since  int64
	Limits carillon.Bounds

	WindowJobs  int // bound on records in memory; default 4096
	WindowBytes int // bound on bytes of specs in memory; default 8 MiB

	// GrantsKept bounds how many attempts are made durable for their age per grantAfter; default 128.
	GrantsKept     int
	DeadRetention  time.Duration // how long dead runs are kept; default 30 days
	HistoryMost    int           // finished runs kept in the partition; default 50,000
	HistoryExpires int           // finished runs removed by one sweep; default 1,000
	EventsMost     int           // events kept for watchers; default 10,000
	AuditKeep      time.Duration // how long audit entries are kept; default 90 days
	AuditMost      int           // audit entries kept in the partition; default 100,000

	Events  Events
	Tracer  Tracer  // nil: no spans are made
	Limiter Limiter // the node's; nil: no key is limited
	// Settings returns what is set for a namespace, nil if nothing is. The function may be nil.
	Settings func(namespace string) *carillon.Namespace
	// Rated returns what is set for a namespace if that has rates or quotas of attempts, else nil. The function
	// may be nil.
	Rated func(namespace string) *carillon.Namespace
	// Calendars returns the dates of a calendar, nil if there is none. The function may be nil.
	Calendars func(namespace, name string) *schedule.Dates
	// Wanted reports whether webhooks ask for events of a type, or, of "", for any. Nil: there are none.
	Wanted func(carillon.EventType) bool
}

// Defaults of Config that others use, too.
const (
	DefaultGrantsKept    = 128
	DefaultDeadRetention = 30 * 24 * time.Hour
)

func (c Config) withDefaults() Config {
	c.WindowJobs = cmp.Or(c.WindowJobs, 4096)
	c.WindowBytes = cmp.Or(c.WindowBytes, 8<<20)
	c.GrantsKept = cmp.Or(c.GrantsKept, DefaultGrantsKept)
	c.DeadRetention = cmp.Or(c.DeadRetention, DefaultDeadRetention)
	c.HistoryMost = cmp.Or(c.HistoryMost, 50_000)
	c.HistoryExpires = cmp.Or(c.HistoryExpires, 1000)
	c.EventsMost = cmp.Or(c.EventsMost, DefaultEventsMost)
	c.AuditKeep = cmp.Or(c.AuditKeep, DefaultAuditKeep)
	c.AuditMost = cmp.Or(c.AuditMost, DefaultAuditMost)
	if c.Limits == (carillon.Bounds{}) {
		c.Limits = carillon.DefaultBounds()
	}
	if c.Rated == nil {
		c.Rated = func(string) *carillon.Namespace { return nil }
	}
	if c.Limiter == nil {
		c.Limiter = unlimited{}
	}
	if c.Settings == nil {
		c.Settings = func(string) *carillon.Namespace { return nil }
	}
	if c.Calendars == nil {
		c.Calendars = func(string, string) *schedule.Dates { return nil }
	}
	if c.Wanted == nil {
		c.Wanted = func(carillon.EventType) bool { return false }
	}
	return c
}

// Events are callbacks for logs and metrics, called as things happen. Any may be nil. They must not block or
// call back.
type Events struct {
	Fired    func(delivery.Fired)
	Finished func(delivery.Finished)
	Skipped  func(reason string, n uint64)
	// Due runs were parked in the store, n of them, because no consumer or too few free slots were there.
	Staged func(q delivery.Queue, n int)
}

// Machine is the state of one partition in memory. It must be used from one goroutine.
type Machine struct {
	cfg      Config
	out      builder   // the batch being filled, and those on their way
	contents *contents // the specs in memory
	agenda   *agenda   // when each record does something by itself
	Records  *Records  // in memory
	suspects *suspects // which attempts are in doubt
	due      *dueRuns  // due runs, until they are handed out or parked
	Queues   *Queues   // where they wait for a consumer
	Permits  *Permits  // and for a permit of their concurrency key
	Attempts *Attempts // in force
	Window   *Window   // which slice of the store is in memory

	runs *runs // begins and ends them
	Jobs *Jobs // what callers ask for

	Backfills    *Backfills
	BackfillRuns *BackfillRuns
	Dependencies *Dependencies
	Applied      *AppliedMarkers
	Commands     *Commands
	History      *History
	Held         *Held // says why runs do not go on
	Events       *EventLog
	Audit        *AuditLog
	Usage        *Usage
	AtHome
}

// AtHome is what the partition [Home] keeps for the whole cluster; in others it is empty.
type AtHome struct {
	PausedQueues *PausedQueues
	Keys         *Keys
	Told         *Told
}

// newMachine makes an empty machine: all records are still in the store.
func newMachine(cfg Config) *Machine {
	m := &Machine{
		cfg:      cfg.withDefaults(),
		out:      builder{seq: 1},
		suspects: newSuspects(cfg.Term.Epoch, cfg.Ended),
	}
	m.Events = newEventLog(&m.out, &m.cfg)
	m.out.events = m.Events
	m.Audit = newAuditLog(&m.out, &m.cfg)
	m.out.audit = m.Audit
	m.contents = newContents(&m.cfg, &m.out)
	m.agenda = &agenda{contents: m.contents}
	m.Records = newRecords(&m.cfg, &m.out)
	m.Queues = &Queues{out: &m.out, queues: map[delivery.Queue]*queue{}}
	m.Permits = newPermits(&m.cfg, &m.out, m.Queues)
	m.due = &dueRuns{
		cfg: &m.cfg, out: &m.out, agenda: m.agenda, records: m.Records, suspects: m.suspects,
		queues: m.Queues, permits: m.Permits,
	}
	m.Attempts = newAttempts(&m.cfg, m.contents, m.agenda, m.Records, m.due)
	m.Usage = &Usage{cfg: &m.cfg, all: map[string]*usage{}}
	m.Window = &Window{
		cfg: &m.cfg, out: &m.out, contents: m.contents, agenda: m.agenda, records: m.Records, suspects: m.suspects,
		due: m.due, attempts: m.Attempts, usage: m.Usage, tick: m.Tick,
	}
	m.Backfills = newBackfills(&m.out, cfg.Partition)
	m.Dependencies = newDependencies(&m.out, cfg.Term.Epoch)
	m.Applied = newAppliedMarkers(&m.out)
	m.Commands = newCommands(&m.out)
	m.History = newHistory(&m.out, &m.cfg)
	m.Held = &Held{contents: m.contents, records: m.Records, permits: m.Permits}
	m.PausedQueues = &PausedQueues{out: &m.out, all: map[delivery.Queue]carillon.QueuePause{}}
	m.Keys = &Keys{out: &m.out, all: map[string]access.Key{}}
	m.Told = &Told{out: &m.out, events: m.Events, all: map[string]store.Told{}}
	m.runs = &runs{
		cfg: &m.cfg, out: &m.out, contents: m.contents, agenda: m.agenda, records: m.Records, due: m.due,
		attempts: m.Attempts, window: m.Window,
		backfills: m.Backfills, dependencies: m.Dependencies, history: m.History,
	}
	m.Jobs = &Jobs{
		cfg: &m.cfg, out: &m.out, contents: m.contents, agenda: m.agenda, records: m.Records, due: m.due,
		attempts: m.Attempts, window: m.Window, runs: m.runs, usage: m.Usage,
		backfills: m.Backfills, applied: m.Applied, commands: m.Commands, seal: m.seal,
	}
	m.BackfillRuns = &BackfillRuns{
		cfg: &m.cfg, out: &m.out, contents: m.contents, records: m.Records, window: m.Window, runs: m.runs,
		backfills: m.Backfills, history: m.History,
	}
	return m
}

// Begin starts a round of calls whose answers wait for the same batch.
func (m *Machine) Begin() { m.out.begin() }

// After returns the number of the batch that must be durable before the outcome of the calls since Begin may
// be told. If it is 0 or the number of a committed batch, the outcome may be told at once.
func (m *Machine) After() uint64 { return m.out.after }

// NextWake returns when Tick must be called again; ok is false if no timer is armed.
func (m *Machine) NextWake() (at int64, ok bool) {
	if len(m.agenda.timers) > 0 {
		at, ok = m.agenda.timers[0].wake, true
	}
	if t := m.Backfills.timers; len(t) > 0 && (!ok || t[0].wake < at) {
		at, ok = t[0].wake, true
	}
	return at, ok
}

// Stats are figures for metrics.
type Stats struct {
	Resident int // records in memory
	Bytes    int // of their specs
	InFlight int // attempts in force
	Queues   int // queues with due runs, in memory or in the store

	Backfills int // unfinished
}

// Stats returns the current figures.
func (m *Machine) Stats() Stats {
	return Stats{
		Resident: len(m.Records.entries), Bytes: m.contents.bytes, InFlight: m.Attempts.grants,
		Queues: len(m.Queues.queues), Backfills: len(m.Backfills.byID),
	}
}

// Cancels returns the attempts whose consumers must be told to stop, and forgets them.
func (a *Attempts) Cancels() []delivery.Cancel {
	a.cancels = append(a.cancels, a.durableDuplicates()...)
	c := a.cancels
	a.cancels = nil
	return c
}
