package delivery

import (
	"cmp"
	"strings"

	"github.com/carillonhq/carillon"
)

// Limit is a concurrency key in its namespace, or an actor type of Dapr (see [ActorLimit]). The limit itself,
// how many attempts may be in force, is a setting of the namespace, or what sidecars name.
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

// NamedLimit is a limit that a sidecar has named.
type NamedLimit struct {
	Limit
	Most  int   // attempts in force
	Stamp int64 // when it was named, UTC ns; of several the newest counts
}

// MostLimits is how many limits a job can be under.
const MostLimits = 3

// AppendLimits appends the limits that a job is under, as far as they are in force, in the order in which a
// run of it takes permits. A limit of reminders with a common key comes before that of their actor type: who
// waits for the former needs the latter as well, so a run that has the first permit and waits for the second
// keeps it from nobody who could go on.
func AppendLimits(to []Limit, job *carillon.Job) []Limit {
	if job.ConcurrencyKey != "" {
		to = append(to, Limit{job.Namespace, job.ConcurrencyKey})
	}
	t := job.Target.Dapr
	if t == nil || t.ActorType == "" {
		return to
	}
	if t.ConcurrencyKey != "" {
		to = append(to, ActorLimit(job.Namespace, t.ActorType, t.ConcurrencyKey))
	}
	return append(to, ActorLimit(job.Namespace, t.ActorType, ""))
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
