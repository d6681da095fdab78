package partition

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/store"
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

	WindowJobs  int           // bound on records in memory; default DefaultWindowJobs
	WindowBytes int           // bound on bytes of specs in memory; default DefaultWindowBytes
	Horizon     time.Duration // runs due later than this stay in the store; default 1 h

	MisfireAfter time.Duration // a time that nobody owned is missed if it is this late; default 5 s
	GrantAfter   time.Duration // an attempt this old is made durable; default 1 s
	// GrantsKept bounds how many attempts are made durable for their age per GrantAfter; default 128.
	GrantsKept    int
	TakeoverGrace time.Duration // added to the heartbeat interval for leases found at takeover; default 2 s
	// StageAfter is how long a due run waits for a consumer and a free slot before it is parked; default 1 s.
	StageAfter     time.Duration
	DeadRetention  time.Duration // how long dead runs are kept; default 30 days
	HistoryMost    int           // finished runs kept in the partition; default 50,000
	HistoryExpires int           // finished runs removed by one sweep; default 1,000

	Events  Events
	Limiter Limiter // the node's; nil: no key is limited
	// Settings returns what is set for a namespace, nil if nothing is. The function may be nil.
	Settings func(namespace string) *carillon.Namespace
}

// Defaults of Config.
const (
	DefaultWindowJobs     = 4096
	DefaultWindowBytes    = 8 << 20
	DefaultHorizon        = time.Hour
	DefaultMisfireAfter   = 5 * time.Second
	DefaultGrantAfter     = time.Second
	DefaultGrantsKept     = 128
	DefaultTakeoverGrace  = 2 * time.Second
	DefaultStageAfter     = time.Second
	DefaultDeadRetention  = 30 * 24 * time.Hour
	DefaultHistoryMost    = 50_000
	DefaultHistoryExpires = 1000
)

func (c Config) withDefaults() Config {
	set(&c.WindowJobs, DefaultWindowJobs)
	set(&c.WindowBytes, DefaultWindowBytes)
	set(&c.Horizon, DefaultHorizon)
	set(&c.MisfireAfter, DefaultMisfireAfter)
	set(&c.GrantAfter, DefaultGrantAfter)
	set(&c.GrantsKept, DefaultGrantsKept)
	set(&c.TakeoverGrace, DefaultTakeoverGrace)
	set(&c.StageAfter, DefaultStageAfter)
	set(&c.DeadRetention, DefaultDeadRetention)
	set(&c.HistoryMost, DefaultHistoryMost)
	set(&c.HistoryExpires, DefaultHistoryExpires)
	if c.Limits == (carillon.Bounds{}) {
		c.Limits = carillon.DefaultBounds()
	}
	if c.Limiter == nil {
		c.Limiter = unlimited{}
	}
	if c.Settings == nil {
		c.Settings = func(string) *carillon.Namespace { return nil }
	}
	return c
}

func set[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Events are callbacks for logs and metrics, called as things happen. Any may be nil. They must not block or
// call back.
type Events struct {
	Fired    func(Fired)
	Finished func(carillon.RunStatus)
	Skipped  func(reason string, n uint64)
	// Due runs were parked in the store, n of them, because no consumer or too few free slots were there.
	Staged func(q Queue, n int)
}

// Fired describes one attempt that was handed to a consumer.
type Fired struct {
	Queue    Queue
	Attempt  int
	Retry    bool          // the attempt counts as a retry, as [carillon.Counters] has it
	Lateness time.Duration // since the attempt was due or the job was put, whichever is later
}

// Machine is the state of one partition in memory. It must be used from one goroutine.
type Machine struct {
	cfg       Config
	signer    *Signer // signs and parses tokens
	entries   map[store.Ref]*entry
	live      map[identity.Run]*entry // unfinished runs that are in memory
	timers    timers
	queues    map[Queue]*queue
	active    []*queue // queues in which due runs wait
	spare     *queue   // a forgotten queue, reused for the next new one
	window    window
	schedules map[scheduleKey]*schedule.Schedule

	orphans map[carillon.Key][]*entry // pending runs in memory whose job is not in memory
	// Jobs whose delete is not durable yet, and its batch; their pending runs are deleted with them.
	deleting          map[carillon.Key]uint64
	needs             map[store.Ref]struct{} // records that must be read before entries can go on
	blocked           []*entry               // due, but waiting for a batch or a record; see block
	woken             []*entry               // memory reused for blocked
	ticked            int64                  // when Tick was called last
	grants            int                    // attempts in force
	keepAt            int64                  // when the age budget next has room; see mayKeep
	pendingDeliveries []pendingDelivery      // not handed out yet, in the order of their batches
	pendingSoFar      uint64                 // pending deliveries so far
	lines             map[Line]*line         // runs that wait for permits
	told              []*line                // lines with permits reserved in this round
	stalled           []*line                // lines that must start waiting again
	charged           map[store.Ref]Limit    // permits of attempts in force whose records are not in memory
	cancels           []Cancel
	others            []other // consumers to stop, in the order of their batches; see others.go

	Backfills    *Backfills
	Dependencies *Dependencies
	Applied      *AppliedMarkers
	History      *History
	doubts       doubts

	out builder // the batch being filled
}

// scheduleKey is everything that a parsed schedule depends on. Jobs with the same key share one.
type scheduleKey struct {
	text, zone string
	dst        carillon.DST
}

// newMachine makes an empty machine: all records are still in the store.
func newMachine(cfg Config) *Machine {
	m := &Machine{
		cfg:       cfg.withDefaults(),
		signer:    NewSigner(cfg.MACKey),
		entries:   map[store.Ref]*entry{},
		live:      map[identity.Run]*entry{},
		queues:    map[Queue]*queue{},
		schedules: map[scheduleKey]*schedule.Schedule{},
		orphans:   map[carillon.Key][]*entry{},
		deleting:  map[carillon.Key]uint64{},
		needs:     map[store.Ref]struct{}{},
		lines:     map[Line]*line{},
		charged:   map[store.Ref]Limit{},
		doubts:    newDoubts(cfg.Ended),
		out:       builder{seq: 1},
	}
	m.Backfills = newBackfills(&m.out, cfg.Partition)
	m.Dependencies = newDependencies(&m.out, cfg.Term.Epoch)
	m.Applied = newAppliedMarkers(&m.out)
	m.History = newHistory(&m.out, &m.cfg)
	return m
}

// Begin starts a round of calls whose answers wait for the same batch.
func (m *Machine) Begin() { m.out.after = 0 }

// After returns the number of the batch that must be durable before the outcome of the calls since Begin may
// be told. If it is 0 or the number of a committed batch, the outcome may be told at once.
func (m *Machine) After() uint64 { return m.out.after }

// NextWake returns when Tick must be called again; ok is false if no timer is armed.
func (m *Machine) NextWake() (at int64, ok bool) {
	if len(m.timers) > 0 {
		at, ok = m.timers[0].wake, true
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
	return Stats{Resident: len(m.entries), Bytes: m.window.bytes, InFlight: m.grants, Queues: len(m.queues), Backfills: len(m.Backfills.byID)}
}

// Cancels returns the attempts whose consumers must be told to stop, and forgets them.
func (m *Machine) Cancels() []Cancel {
	m.cancels = append(m.cancels, m.durableOthers()...)
	c := m.cancels
	m.cancels = nil
	return c
}
