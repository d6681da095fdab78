package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// Plan is a run before it is lived: all that clients, workers, endpoints and the nemesis will do. Times count
// from Start. Ops, Faults and Habits can be dropped one by one, and the rest stays what it was.
type Plan struct {
	Seed       uint64
	Profile    string
	Start      time.Time // when the bubble's clock shows it, the run begins
	Busy       time.Duration
	Calm       time.Duration // how long everything has to come to rest then
	Nodes      int
	Partitions int
	Lanes      int // of a node's engine
	// of partitions and members; 0 = the engine's default; only of a cluster
	LeaseTTL  time.Duration `json:",omitempty"`
	Workers   []Worker
	Slots     int           // runs that a worker surely takes at a time, if they are few; 0 = many
	Work      time.Duration `json:",omitempty"` // the most that a good worker takes for a run; 0 = 20 ms
	Sidecars  []Sidecar     `json:",omitempty"` // of Dapr
	Habits    []Habit       // what workers and endpoints do beside succeeding
	Endpoints []string
	Off       []checker.Stretch `json:",omitempty"` // the times of the calendar that jobs may have
	Ops       []Op
	Faults    []Fault
	// critical runs leave while the store is away
	FireCritical bool `json:",omitempty"`
}

// Op is one operation of a client.
type Op struct {
	At        time.Duration
	Client    int
	Kind      checker.OpKind
	Namespace string
	Job       string         `json:",omitempty"`
	Spec      *checker.Job   `json:",omitempty"`
	Batch     []BatchJob     `json:",omitempty"`
	Fields    []string       `json:",omitempty"` // of a patch
	IfAbsent  bool           `json:",omitempty"`
	Guarded   bool           `json:",omitempty"` // put or patch only over the generation that the client knows
	CatchUp   bool           `json:",omitempty"` // of a resume
	From, To  time.Duration  `json:",omitempty"` // of a backfill: before the operation
	Rate      float64        `json:",omitempty"` // of a backfill
	Limits    map[string]int `json:",omitempty"` // of put-namespace
	// of put-namespace, by concurrency key; "" is the quota of the namespace
	Rates map[string]checker.Rate `json:",omitempty"`
}

// BatchJob is a job of a batch.
type BatchJob struct {
	Job  string
	Spec *checker.Job
}

// Worker is a worker that serves queues; those that come late or leave early do it within the busy time.
type Worker struct {
	Name      string
	Namespace string
	Queues    []string
	Credits   int
	Near      bool // in the node's process: its attempts are durable before it gets them
	Good      bool // only succeeds, whatever the habits: what the time of rest has
	From, To  time.Duration
	Reforms   time.Duration `json:",omitempty"` // from then on it is good; 0 = never
}

// Habit is something that goes wrong in a share of attempts.
type Habit struct {
	Kind  string
	Share float64
}

// Habits of workers.
const (
	Fails          = "fails"
	Permanent      = "fails for good"
	Later          = "asks for a later retry"
	Twice          = "answers twice"
	Hangs          = "hangs and answers late"
	Crashes        = "crashes"
	Leaves         = "says goodbye in the middle"
	MadeUp         = "sends a made-up token"
	LongHeartbeats = "takes long and beats"
	Forgets        = "never answers"
	Progresses     = "tells its progress"
	Reschedules    = "asks to be called again"
)

// Lasts is a habit of sidecars: a run takes longer than anybody waits for a stream that is not heard of.
const Lasts = "takes very long"

// Habits of endpoints. Their connections are the workers'.
const (
	Answers500   = "answers 500"
	Answers429   = "answers 429 with Retry-After"
	Answers202   = "answers 202 and completes later"
	Answers202No = "answers 202 and never completes"
	Answers410   = "answers 410"
	Answers422   = "answers 422"
	HangsHTTP    = "does not answer"
	CutsHTTP     = "cuts the connection"
)

// Fault is something that the nemesis does, from At on, For a while.
type Fault struct {
	Kind   FaultKind
	At     time.Duration
	For    time.Duration
	Node   int
	Side   []int         `json:",omitempty"` // of a cut: the nodes on one side of it
	Worker string        `json:",omitempty"` // whose stream is cut, or which endpoint is down
	Delay  time.Duration `json:",omitempty"` // of a slow store: at most; of a clock: how far it is wrong
	// of writes or reads; of a paused queue: after how much of the pause it is purged, 0 = it is not
	Share float64 `json:",omitempty"`
}

// overlaps reports whether another fault is of the same worker and goes on at the same time.
func (f Fault) overlaps(o Fault) bool {
	return o.Worker == f.Worker && o.At < f.At+f.For && f.At < o.At+o.For
}

// FaultKind says what is wrong.
type FaultKind string

// The faults.
const (
	SlowStore    FaultKind = "slow store"
	StoreRefuses FaultKind = "store refuses"
	LostAcks     FaultKind = "lost acknowledgements"
	ReadsFail    FaultKind = "reads fail"
	LeasesFail   FaultKind = "leases fail"
	Kill         FaultKind = "kill"
	Clock        FaultKind = "clock"
	StreamCut    FaultKind = "worker stream cut"
	EndpointDown FaultKind = "worker endpoint down"
	SidecarHangs FaultKind = "worker process hung" // a sidecar stands still, and its streams last
	WorkerStops  FaultKind = checker.WorkerStopped // its process stands still and keeps its streams
	QueuePaused  FaultKind = checker.QueuePaused   // Fault.Worker is the queue behind its namespace and "/"
)

// The faults of a cluster.
const (
	Cut         FaultKind = "cut"                     // nodes on one side do not reach those on the other
	CutStore    FaultKind = "cut from the store"      // a node does not reach the store
	StoreAway   FaultKind = "the store is away"       // no node reaches it
	Halt        FaultKind = "pause"                   // a node stands still, and then goes on where it was
	Departs     FaultKind = "leave"                   // a node leaves in order, and comes back if there is time
	ComesLate   FaultKind = "late"                    // a node is not there in the beginning
	EndpointCut FaultKind = "worker endpoint cut off" // one node does not reach an endpoint
	// a node starts again and is a member, and its claims, or its writes, fail.
	Barred   FaultKind = "barred"
	AllLeave FaultKind = "all leave" // all nodes are told to end at about the same time, and come back
	Lapse    FaultKind = "lapse"     // the store goes back to what it held a while ago
	Failover FaultKind = "failover"  // no write is known to have been made, and then all terms are over
)

// cluster reports whether the nodes of the plan are members of a cluster.
func (p *Plan) cluster() bool { return p.LeaseTTL > 0 }

// size is how many things can be dropped.
func (p *Plan) size() int { return len(p.Ops) + len(p.Faults) + len(p.Habits) }

// Encode writes the plan as JSON.
func (p *Plan) Encode(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	if err := e.Encode(p); err != nil {
		return fmt.Errorf("sim: write the plan: %w", err)
	}
	return nil
}

// ReadPlan reads what Encode wrote.
func ReadPlan(r io.Reader) (Plan, error) {
	var p Plan
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("sim: read the plan: %w", err)
	}
	return p, nil
}
