package partition

import (
	"strings"
	"time"

	"github.com/carillonhq/carillon"
)

// traits are what the kind of a job's target means for the machine. Nothing else here asks for the kind.
type traits struct {
	// heartbeats: an attempt has a lease, which heartbeats extend. Otherwise it lasts until its timeout.
	heartbeats bool
	// timeoutGrace is how long after an attempt's timeout the machine itself declares it lost. Until then the
	// consumer reports the timeout itself, and more precisely.
	timeoutGrace time.Duration
	// endsWithStream: an attempt ends with the stream that took it, and then does not count. A new owner
	// withdraws those that it finds in force, unless the earlier owner has kept the streams (kept.go).
	endsWithStream bool
	// virtualRetry: retries at a constant interval are due at times that depend only on the scheduled time.
	virtualRetry bool
	// outlivesJob: the end of a job's life bounds its scheduled times, but not when their runs are delivered.
	outlivesJob bool
	// dueRunsFirst: a recurring job first runs at its due time, even if that is not a time of its schedule.
	dueRunsFirst bool
}

// The traits of the kinds of targets. docs/dapr.md says why Dapr's jobs differ.
var (
	workerTraits = traits{heartbeats: true}
	sentTraits   = traits{timeoutGrace: 5 * time.Second} // the node sends them by itself
	daprTraits   = traits{endsWithStream: true, virtualRetry: true, outlivesJob: true, dueRunsFirst: true}
)

// traitsOf returns the traits of a kind of target, as [carillon.Target.Kind] has it.
func traitsOf(kind string) *traits {
	switch kind {
	case "http", "kafka", "amqp", "nats", "redis":
		return &sentTraits
	case "dapr":
		return &daprTraits
	}
	return &workerTraits
}

// traits returns those traits of e's target that are needed while its spec is not in memory. The name tells
// them: the other kinds do not differ in them.
func (e *entry) traits() *traits {
	if strings.HasPrefix(e.ref.Name, carillon.DaprPrefix) {
		return &daprTraits
	}
	return &workerTraits
}
