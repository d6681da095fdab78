package partition

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/store"
)

// Config is what a machine is made with.
type Config struct {
	Partition int
	Term      store.Term  // of the ownership that this machine stands for
	MACKey    []byte      // authenticates tokens
	Ended     []EndedTerm // terms before it that ended without order
	Since     int64       // UTC ns since when the partition is owned without a gap; older times may count as missed
	Limits    carillon.Bounds

	WindowJobs  int           // most records kept in memory; default DefaultWindowJobs
	WindowBytes int           // most bytes of specs kept in memory; default DefaultWindowBytes
	Horizon     time.Duration // what is due later is left in the store; default 1 h

	MisfireAfter   time.Duration // a time this late because nobody owned the partition was missed; default 5 s
	GrantAfter     time.Duration // an attempt this old is made durable; default 1 s
	GrantsKept     int           // how many at most within that time: others get their turn later; default 128
	TakeoverGrace  time.Duration // added to the heartbeat interval for leases found at takeover; default 2 s
	StageAfter     time.Duration // a due run without consumer or room is parked after this; default 1 s
	DeadRetention  time.Duration // how long dead runs are kept; default 30 days
	HistoryMost    int           // finished runs kept in the partition; default 50,000
	HistoryExpires int           // records removed by one sweep; default 1,000

	Events   Events
	Limiter  Limiter                                    // of the node; nil: no key is limited
	Settings func(namespace string) *carillon.Namespace // what is set for a namespace, nil for nothing; may be nil
}

// Defaults of Config.
const (
	DefaultWindowJobs     = 4096
	DefaultWindowBytes    = 8 << 20
	DefaultHorizon        = time.Hour
	DefaultMisfireAfter   = 5 * time.Second // decisions.md 15
	DefaultGrantAfter     = time.Second     // decisions.md 1
	DefaultGrantsKept     = 128
	DefaultTakeoverGrace  = 2 * time.Second
	DefaultStageAfter     = time.Second
	DefaultDeadRetention  = 30 * 24 * time.Hour
	DefaultHistoryMost    = 50_000 // semantics.md, "history"
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

// Events are told what happens, as it happens. Any of them may be nil. They must not block or call back.
type Events struct {
	Fired    func(Fired)
	Finished func(carillon.RunStatus)
	Skipped  func(reason string, n uint64)
	Staged   func(q Queue, n int) // due runs that found nobody to take them, or too few, and wait in the store
}

// Fired is one attempt handed to a consumer.
type Fired struct {
	Queue    Queue
	Attempt  int
	Retry    bool          // the attempt counts as a retry, as [carillon.Counters] has it
	Lateness time.Duration // since the attempt was due or, if that is later, the job was put
}

// Machine is the state of one partition in memory. It is used from one goroutine.
type Machine struct {
	cfg       Config
	signer    *Signer // of tokens
	entries   map[store.Ref]*entry
	live      map[carillon.RunIdentity]*entry // unfinished runs that are in memory
	timers    timers
	queues    map[Queue]*queue
	active    []*queue // those in which due runs wait
	spare     *queue   // one that has been forgotten, for the next that is made
	window    window
	schedules map[scheduleKey]*schedule.Schedule

	orphans           map[carillon.Key][]*entry // pending runs in memory whose job is not
	deleting          map[carillon.Key]uint64   // jobs whose delete is not durable yet, and its batch: their pending runs go with them
	needs             map[store.Ref]struct{}    // records to read before their owners can go on
	blocked           []*entry                  // due, but with a change that is not yet durable
	woken             []*entry                  // memory for blocked
	ticked            int64                     // when Tick was called last
	grants            int                       // attempts in force
	keepAt            int64                     // when the next attempt may be made durable for its age; see mayKeep
	pendingDeliveries []pendingDelivery         // attempts to be handed out once they are durable, in the order of their batches
	pendingSoFar      uint64                    // pledges so far
	lines             map[Line]*line            // runs that wait for tokens
	told              []*line                   // those with tokens reserved in this round
	stalled           []*line                   // those that are to wait again
	charged           map[store.Ref]Limit       // tokens of attempts in force that are not in memory
	cancels           []Cancel
	others            []other // in the order of their batches
	fills             backfills

	dependencies dependencies // who waits for jobs of this partition
	doubts       doubts

	marks map[string]appliedMark // batches whose share is stored, while their intents may be there

	kept  int     // finished runs written since the last sweep
	out   builder // the batch that fills
	after uint64  // see After
}

// scheduleKey is what a parsed schedule depends on; jobs with equal ones share it.
type scheduleKey struct {
	text, zone string
	dst        carillon.DST
}

// New makes an empty machine: everything is still in the store.
func New(cfg Config) *Machine {
	return &Machine{
		cfg:          cfg.withDefaults(),
		signer:       NewSigner(cfg.MACKey),
		entries:      map[store.Ref]*entry{},
		live:         map[carillon.RunIdentity]*entry{},
		queues:       map[Queue]*queue{},
		schedules:    map[scheduleKey]*schedule.Schedule{},
		orphans:      map[carillon.Key][]*entry{},
		deleting:     map[carillon.Key]uint64{},
		needs:        map[store.Ref]struct{}{},
		dependencies: dependencies{of: map[carillon.Key][]*dependency{}, outbox: map[Dependency]*notice{}},
		marks:        map[string]appliedMark{},
		lines:        map[Line]*line{},
		charged:      map[store.Ref]Limit{},
		fills:        newBackfills(),
		doubts:       newDoubts(cfg.Ended),
		out:          builder{seq: 1},
	}
}

// Begin starts a round of calls that are answered together.
func (m *Machine) Begin() { m.after = 0 }

// After is the number of the batch that must be durable before the outcome of the calls since Begin may be told; 0 or a
// number already committed means at once.
func (m *Machine) After() uint64 { return m.after }

func (m *Machine) wait(seq uint64) { m.after = max(m.after, seq) }

// NextWake is when Tick wants to be called again; ok is false if nothing is waited for.
func (m *Machine) NextWake() (at int64, ok bool) {
	if len(m.timers) > 0 {
		at, ok = m.timers[0].wake, true
	}
	if t := m.fills.timers; len(t) > 0 && (!ok || t[0].wake < at) {
		at, ok = t[0].wake, true
	}
	return at, ok
}

// Stats are for metrics.
type Stats struct {
	Resident int // records in memory
	Bytes    int // of their specs
	InFlight int // attempts in force
	Queues   int // queues of which something is remembered

	Backfills int // that go on
}

// Stats tells how much is in memory.
func (m *Machine) Stats() Stats {
	return Stats{Resident: len(m.entries), Bytes: m.window.bytes, InFlight: m.grants, Queues: len(m.queues), Backfills: len(m.fills.byID)}
}

// Cancels returns and forgets the attempts whose consumers must be told to stop.
func (m *Machine) Cancels() []Cancel {
	m.cancels = append(m.cancels, m.durableOthers()...)
	c := m.cancels
	m.cancels = nil
	return c
}
