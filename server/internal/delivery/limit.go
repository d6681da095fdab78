package delivery

import (
	"cmp"
	"strings"

	"github.com/carillonhq/carillon"
)

// Limit is a concurrency key in its namespace, or an actor type of Dapr (see [ActorLimit]). The limit itself,
// how many attempts may be in force, is a setting of the namespace, or what sidecars name. It may also be a
// rate ([RateLimit]) or a quota of the namespace ([RunsQuota]).
type Limit struct{ Namespace, Key string }

// actorMark begins the keys of the limits that Dapr's sidecars name, and separates type and key there. No
// concurrency key, actor type or namespace has it, as none may have control characters.
const actorMark = "\x01"

// ActorLimit returns the limit of an actor type of Dapr, or of those of its reminders that share a
// concurrency key, if key is not empty. Sidecars name such limits ([NamedLimit]); settings cannot.
func ActorLimit(namespace, actorType, key string) Limit {
	if key == "" {
		return Limit{namespace, actorMark + actorType}
	}
	return Limit{namespace, actorMark + actorType + actorMark + key}
}

// Actor returns what [ActorLimit] was called with; ok is false if l is an ordinary concurrency key.
func (l Limit) Actor() (actorType, key string, ok bool) {
	rest, ok := strings.CutPrefix(l.Key, actorMark)
	actorType, key, _ = strings.Cut(rest, actorMark)
	return actorType, key, ok
}

// Named reports whether sidecars name the limit.
func (l Limit) Named() bool { return strings.HasPrefix(l.Key, actorMark) }

// The keys of rates begin with rateMark, and quotaMark is that of [RunsQuota]. No concurrency key has them.
const (
	rateMark  = "\x02"
	quotaMark = "\x03"
)

// RateLimit returns the limit of how often attempts of a concurrency key may begin, or, if key is empty,
// attempts of the namespace. Its permits are used up when an attempt begins, and come back with time.
func RateLimit(namespace, key string) Limit { return Limit{namespace, rateMark + key} }

// RunsQuota returns the limit of how many attempts of a namespace may be in force.
func RunsQuota(namespace string) Limit { return Limit{namespace, quotaMark} }

// Rate returns the concurrency key that [RateLimit] was called with; ok is false if l is no rate.
func (l Limit) Rate() (key string, ok bool) { return strings.CutPrefix(l.Key, rateMark) }

// IsRate reports whether l is of how often attempts may begin.
func (l Limit) IsRate() bool { return strings.HasPrefix(l.Key, rateMark) }

// IsQuota reports whether l is a [RunsQuota].
func (l Limit) IsQuota() bool { return l.Key == quotaMark }

// NamedLimit is a limit that a sidecar has named.
type NamedLimit struct {
	Limit
	Most  int   // attempts in force
	Stamp int64 // when it was named, UTC ns; of several the newest counts
}

// MostLimits is how many limits a job can be under.
const MostLimits = 6

// AppendLimits appends the limits that a job is under, as far as they are in force, in the order in which a
// run of it takes permits. rated are the settings of its namespace; nil if they have no rates and no quotas.
// A limit of reminders with a common key comes before that of their actor type, and all of them before
// those of the namespace: who waits for the former needs the latter as well, so a run that has the first
// permit and waits for the second keeps it from nobody who could go on.
func AppendLimits(to []Limit, job *carillon.Job, rated *carillon.Namespace) []Limit {
	key := job.ConcurrencyKey
	if key != "" {
		to = append(to, Limit{job.Namespace, key})
		if rated != nil && rated.RateLimits[key].Count > 0 {
			to = append(to, RateLimit(job.Namespace, key))
		}
	}
	if t := job.Target.Dapr; t != nil && t.ActorType != "" {
		if t.ConcurrencyKey != "" {
			to = append(to, ActorLimit(job.Namespace, t.ActorType, t.ConcurrencyKey))
		}
		to = append(to, ActorLimit(job.Namespace, t.ActorType, ""))
	}
	if rated != nil && rated.Quotas.ConcurrentRuns > 0 {
		to = append(to, RunsQuota(job.Namespace))
	}
	if rated != nil && rated.Quotas.Runs.Count > 0 {
		to = append(to, RateLimit(job.Namespace, ""))
	}
	return to
}

// AppendAnyLimits appends every limit that a job may be under, whatever is set, in no order.
func AppendAnyLimits(to []Limit, job *carillon.Job) []Limit {
	to = AppendLimits(to, job, nil)
	if job.ConcurrencyKey != "" {
		to = append(to, RateLimit(job.Namespace, job.ConcurrencyKey))
	}
	return append(to, RunsQuota(job.Namespace), RateLimit(job.Namespace, ""))
}

// Compare orders limits by namespace and key.
func (l Limit) Compare(o Limit) int {
	return cmp.Or(cmp.Compare(l.Namespace, o.Namespace), cmp.Compare(l.Key, o.Key))
}

// Line names a waiting line for permits of a limit. There is one for each queue that such runs are in.
type Line struct {
	Limit
	Queue Queue
}

// String returns the line as the store names it, like a queue of its own. Concurrency keys contain no zero
// byte.
func (l Line) String() string { return l.Parked().String() }

// Parked names the line's runs in the store like a queue of their own.
func (l Line) Parked() Queue {
	q := l.Queue
	q.Address += "\x00" + l.Key
	return q
}
