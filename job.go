package carillon

import (
	"encoding/base32"
	"encoding/json"
	"slices"
	"time"

	"github.com/carillonhq/carillon/schedule"
)

// DefaultNamespace is the namespace of jobs that name none.
const DefaultNamespace = "default"

// Key names a job: the name is unique in its namespace.
type Key struct {
	Namespace string
	Name      string
}

// String returns namespace/name, for people and logs.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Job says what to do and when. The zero value of a field means its default, given here. [Job.Validate]
// checks a Job.
type Job struct {
	Namespace string // tenant boundary; default "default"
	Name      string // hierarchical with "/"; empty: the server makes one up (a ULID)

	Schedule string        // cron, @every, macro, ISO 8601 repeat, or several with ";" between; empty: one-shot
	TimeZone string        // IANA name; default UTC
	Due      When          // first run; default now for a one-shot, the schedule's first match otherwise
	Repeats  uint64        // most runs that the schedule may begin; 0: no limit
	TTL      When          // end of life, from Due if given, else from creation; inclusive; zero: none
	Jitter   time.Duration // each run moves by a deterministic amount in [0, Jitter)

	Calendars CalendarRules // days on which the schedule does not run, and what it does when clocks change

	Data     Data
	Metadata map[string]string
	Labels   map[string]string // like Metadata, and can be queried

	Target        Target
	FailurePolicy FailurePolicy
	Timeout       time.Duration // one attempt's limit; default 30 s (http, brokers), 24 h (worker, exec)
	Lease         time.Duration // how long an attempt lives without a heartbeat; default 2 min

	Overlap Overlap
	Misfire Misfire

	Priority       Priority
	ConcurrencyKey string // runs sharing it are limited across the cluster
	// jobs of the namespace: each must succeed before a run of this one begins, once for each run
	DependsOn []string

	Paused  bool   // keeps its schedule, fires nothing
	Note    string // for people; says why it is paused, for example
	History History

	Status *JobStatus // set by the server; nil on input
}

// Key returns the job's namespace and name.
func (j *Job) Key() Key { return Key{j.Namespace, j.Name} }

// Recurring reports whether the job has a schedule.
func (j *Job) Recurring() bool { return j.Schedule != "" }

// Data is a job's payload: bytes that come back unchanged.
type Data struct {
	Bytes       []byte
	Ref         *PayloadRef // in place of Bytes: they are in the payload store; nil: they are not
	ContentType string      // default application/json if made by JSON, else application/octet-stream
	err         error
}

// JSON returns v as a JSON payload. If v cannot be encoded, the job is invalid in the field data.
func JSON(v any) Data {
	b, err := json.Marshal(v)
	return Data{Bytes: b, ContentType: ContentTypeJSON, err: err}
}

// Bytes returns a payload of any form.
func Bytes(b []byte, contentType string) Data { return Data{Bytes: b, ContentType: contentType} }

// Content types that Carillon itself sets.
const (
	ContentTypeJSON   = "application/json"
	ContentTypeBinary = "application/octet-stream"
)

// When is a point in time as its author wrote it: absolute, or relative to now. Relative ones are resolved
// once, by the first node that sees them. The zero value means "not given".
type When struct {
	text string
}

// In returns the time d from now.
func In(d time.Duration) When { return When{text: d.String()} }

// At returns the instant t.
func At(t time.Time) When { return When{text: t.UTC().Format(time.RFC3339Nano)} }

// WhenText takes RFC 3339, a Go duration or an ISO 8601 duration from now; [Job.Validate] parses it and
// refuses a wrong one.
func WhenText(s string) When { return When{text: s} }

// IsZero reports whether nothing was given.
func (w When) IsZero() bool { return w.text == "" }

// String returns the text as written.
func (w When) String() string { return w.text }

// CalendarRules says what a schedule does when clocks change, and on which days it does not run. Calendars
// are looked up when a time is due: see [Calendar].
type CalendarRules struct {
	DST    DST      // what a cron does at a daylight-saving change; default DSTSafe
	Except []string // calendars of the namespace: times in one of them do not run
	Only   []string // calendars of the namespace: if there are any, times in none of them do not run
}

// Filter returns what leaves out the times that do not run, with the calendars that find knows; nil if there
// is none. It is as if the others were not named.
func (r *CalendarRules) Filter(find func(name string) *schedule.Dates) *schedule.Filter {
	if len(r.Except)+len(r.Only) == 0 {
		return nil
	}
	known := func(names []string) (all []*schedule.Dates) {
		for _, name := range names {
			if d := find(name); d != nil {
				all = append(all, d)
			}
		}
		return all
	}
	return &schedule.Filter{Except: known(r.Except), Only: known(r.Only)}
}

// Names returns the calendars that are named, in the order of the fields.
func (r *CalendarRules) Names() []string { return slices.Concat(r.Except, r.Only) }

// DST decides what a cron does when clocks change.
type DST uint8

// The daylight-saving rules.
const (
	// a fixed-time job runs exactly once per matching day (the rule of cronie, Cronos and croner).
	DSTSafe    DST = iota
	DSTLiteral     // a time that does not exist is skipped, one that exists twice runs twice (robfig)
)

// Overlap decides what happens when a run is due while the previous one is still going.
type Overlap uint8

// The overlap rules.
const (
	OverlapSerial  Overlap = iota // the next one waits
	OverlapSkip                   // the next one is skipped
	OverlapAllow                  // both run
	OverlapReplace                // the running one is cancelled
)

// Misfire decides what becomes of runs that were due while no node could fire them or the previous one was
// still going.
type Misfire struct {
	Rule   MisfireRule
	Limit  int           // most missed runs that MisfireAll makes up for; default 1000
	Window time.Duration // older missed runs are not made up for; 0: no limit
}

// MisfireRule is which of the missed runs are made up for.
type MisfireRule uint8

// The misfire rules.
const (
	MisfireLatest MisfireRule = iota // one run, the newest
	MisfireAll                       // each in order, at most Limit
	MisfireSkip                      // none
)

// Priority orders due runs within a partition; lower ones age, so that none starves.
type Priority uint8

// The priorities.
const (
	PriorityNormal Priority = iota
	PriorityCritical
	PriorityHigh
	PriorityLow
)

// Rank returns the order of dispatch: 0 first.
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

// History decides how many finished runs of a job are kept, and for how long.
type History struct {
	Runs int           // default 20; -1: none
	Keep time.Duration // default 72 h
	// NoResults keeps finished runs without their results: see [Run.Response].
	NoResults bool
}

// Phase is the state of a job.
type Phase uint8

// The phases.
const (
	PhaseScheduled Phase = iota // waits for its next time
	PhaseReady                  // due for its first attempt, waits in memory for a consumer with room
	PhaseStaged                 // due, staged in the store: its queue has no consumer or no room
	PhaseRunning                // an attempt is in force
	PhaseRetrying               // waits for another attempt, also when that is due
	PhasePaused
	PhaseWaiting // due, waits for the success of jobs in DependsOn
)

// UID tells a job from an earlier or later one with the same name: it lives from creation to deletion.
type UID [16]byte

// String returns the uid in lower-case base32 (extended hex alphabet).
func (u UID) String() string { return uidEncoding.EncodeToString(u[:]) }

var uidEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// JobStatus is the state and history of a job.
type JobStatus struct {
	UID        UID
	Generation uint64
	Created    time.Time
	Updated    time.Time
	Phase      Phase
	NextRun    time.Time // zero: none
	LastRun    *Run      // the last finished one; nil: none
	Current    *Run      // the unfinished one; nil: none
	Pending    []Run     // unfinished ones beside it, oldest first, at most MaxShownPending; set by GetJob only
	// PendingCount is how many unfinished runs there are beside it; lists have it, too.
	PendingCount uint32
	Waiting      []string // jobs of DependsOn that must still succeed before the next run begins
	Missing      []string // those of Waiting that do not exist; set by GetJob only
	// Calendars that the job names and that do not exist: as if it did not name them. Set by GetJob only.
	MissingCalendars []string
	Failures         uint32 // runs in a row that ended failed or dead; a success and a resume set it back
	Counters         Counters
	// Hold is why the unfinished run does not go on; without one, why the next run does not begin. It is nil
	// while an attempt is in force, unless another time waits for its end. Lists have of it what is stored.
	Hold *Hold
}

// Counters count a job's runs since it was created. They change in the same write as the records that they
// count: whatever happens to a node, Fired is Succeeded + Dropped + Dead + Cancelled plus the unfinished runs
// that have had an attempt.
type Counters struct {
	Fired     uint64 // runs that have had an attempt; a rescheduled or redriven one counts once
	Succeeded uint64 // runs that ended with a success
	Failed    uint64 // attempts that failed: by their result, their timeout or the end of their lease
	Retried   uint64 // attempts after the first of a run, except the first after a reschedule or a redrive
	Dead      uint64 // runs that ended dead and have not been redriven since
	Skipped   uint64 // scheduled times that did not run
	Late      uint64 // runs whose first attempt began more than 1 s after they were due
	Dropped   uint64 // runs that ended failed, out of attempts
	Cancelled uint64 // runs that ended cancelled after they had begun
}
