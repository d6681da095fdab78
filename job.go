package carillon

import (
	"encoding/json"
	"time"
)

// DefaultNamespace is where a job without a namespace lives.
const DefaultNamespace = "default"

// Key names a job: unique in its namespace.
type Key struct {
	Namespace string
	Name      string
}

// String is namespace/name, for people and logs.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Job says what to do and when. The zero value of a field means its default, given here. A Job is checked by [Job.Validate].
type Job struct {
	Namespace string // tenant boundary; default "default"
	Name      string // hierarchical with "/"; empty when a name is to be made up (a ULID)

	Schedule string        // cron, @every, macro or ISO 8601 repeat; empty = one-shot
	TimeZone string        // IANA name; default UTC
	DST      DST           // what a cron does at a daylight-saving change; default DSTSafe
	Due      When          // first run; default now for a one-shot, the schedule's first match otherwise
	Repeats  uint64        // most runs that the schedule may begin; 0 = no limit
	TTL      When          // end of life, counted from Due if given, else from creation; inclusive; zero = none
	Jitter   time.Duration // each run moves by a deterministic amount in [0, Spread)

	Data     Data
	Metadata map[string]string
	Labels   map[string]string // like Metadata, and can be queried

	Target        Target
	FailurePolicy FailurePolicy
	Timeout       time.Duration // one attempt's limit; default 30 s (http, brokers), 24 h (worker, exec)
	Lease         time.Duration // how long an attempt lives without a heartbeat; default 2 min

	Overlap       Overlap
	Misfire       Misfire
	CatchUpLimit  int           // most runs made up for under MisfireAll; default 1000
	CatchUpWindow time.Duration // missed runs older than this are not made up for; 0 = no limit

	Priority       Priority
	ConcurrencyKey string   // runs sharing it are limited across the cluster
	DependsOn      []string // jobs of the namespace: each must succeed before a run of this one begins, once for each run

	Paused  bool   // keeps its schedule, fires nothing
	Note    string // for people; says why it is paused, for example
	History History

	Status *JobStatus // what became of it; nil on input
}

// Key is the job's namespace and name.
func (j *Job) Key() Key { return Key{j.Namespace, j.Name} }

// Recurring reports whether the job has a schedule.
func (j *Job) Recurring() bool { return j.Schedule != "" }

// Data is a job's payload: bytes that come back unchanged.
type Data struct {
	Bytes       []byte
	ContentType string // default application/json if made by JSON, else application/octet-stream
	err         error
}

// JSON is v as a JSON payload. A v that cannot be encoded makes the job invalid, naming the field data.
func JSON(v any) Data {
	b, err := json.Marshal(v)
	return Data{Bytes: b, ContentType: ContentTypeJSON, err: err}
}

// Bytes is a payload of any form.
func Bytes(b []byte, contentType string) Data { return Data{Bytes: b, ContentType: contentType} }

// Content types that Carillon itself sets.
const (
	ContentTypeJSON   = "application/json"
	ContentTypeBinary = "application/octet-stream"
)

// When is a point in time as its author wrote it: absolute, or counted from now. Relative ones are resolved once, by the
// first node that sees them. The zero value is "not given".
type When struct {
	text string
}

// In is d from now.
func In(d time.Duration) When { return When{text: d.String()} }

// At is the instant t.
func At(t time.Time) When { return When{text: t.UTC().Format(time.RFC3339Nano)} }

// WhenText is RFC 3339, a Go duration or an ISO 8601 duration from now; it is read, and refused if wrong, by [Job.Validate].
func WhenText(s string) When { return When{text: s} }

// IsZero reports whether nothing was given.
func (w When) IsZero() bool { return w.text == "" }

// String is the text as written.
func (w When) String() string { return w.text }

// DST says what a cron does when clocks change.
type DST uint8

// The daylight-saving rules.
const (
	DSTSafe    DST = iota // a fixed-time job runs exactly once per matching day (the rule of cronie, Cronos and croner)
	DSTLiteral            // a time that does not exist is skipped, one that exists twice runs twice (robfig)
)

// Overlap says what happens when a run is due while the previous one is still going.
type Overlap uint8

// The overlap rules.
const (
	OverlapSerial  Overlap = iota // the next one waits
	OverlapSkip                   // the next one is not run
	OverlapAllow                  // both run
	OverlapReplace                // the running one is cancelled
)

// Misfire says what becomes of runs that were due while nobody could fire them or the previous one was still going.
type Misfire uint8

// The misfire rules.
const (
	MisfireLatest Misfire = iota // one run, the newest
	MisfireAll                   // each in order, at most CatchUpLimit
	MisfireSkip                  // none
)

// Priority orders due runs within a partition; lower classes age, so none starves.
type Priority uint8

// The classes.
const (
	PriorityNormal Priority = iota
	PriorityCritical
	PriorityHigh
	PriorityLow
)

// Rank is the order of dispatch: 0 first.
func (c Priority) Rank() uint8 {
	switch c {
	case PriorityCritical:
		return 0
	case PriorityHigh:
		return 1
	case PriorityLow:
		return 3
	default:
		return 2
	}
}

// History says how many finished runs of a job are kept, and for how long.
type History struct {
	Runs int           // default 20; -1 = none
	Keep time.Duration // default 72 h
}

// Phase is where a job stands.
type Phase uint8

// The phases.
const (
	PhaseScheduled Phase = iota // waits for its next time
	PhaseReady                  // due, waits in memory for a consumer with room
	PhaseStaged                 // due, parked in the store: its queue has no consumer or no room
	PhaseRunning                // an attempt is in force
	PhaseRetrying               // waits for the next attempt
	PhasePaused
	PhaseWaiting // due, waits for the success of jobs in After
)

// JobStatus is what became of a job so far.
type JobStatus struct {
	UID        UID
	Generation uint64
	Created    time.Time
	Updated    time.Time
	Phase      Phase
	NextRun    time.Time // zero = none
	LastRun    *Run      // the last finished one; nil = none
	Current    *Run      // the unfinished one; nil = none
	Waiting    []string  // jobs of After that have yet to succeed before the next run begins
	Missing    []string  // those of Waiting that do not exist; only GetJob finds out
	Counters   Counters
}

// Counters count a job's runs since it was created. They change with the records that they count, in one write: whatever
// happens to a node, Fired is Succeeded + Dropped + Dead + Cancelled and the unfinished runs that have had an attempt.
type Counters struct {
	Fired     uint64 // runs begun: that have had an attempt. One that is rescheduled or redriven goes on and counts once
	Succeeded uint64 // runs that ended with a success
	Failed    uint64 // attempts that failed: by their result, their timeout or the end of their lease
	Retried   uint64 // attempts after the first of a run, but for the first after a reschedule or a redrive
	Dead      uint64 // runs that ended dead and have not been redriven since
	Skipped   uint64 // scheduled times that did not run
	Late      uint64 // runs whose first attempt began more than 1 s after they were due
	Dropped   uint64 // runs that ended failed, out of attempts
	Cancelled uint64 // runs that ended cancelled after they had begun
}
