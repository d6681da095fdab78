package daprapi

import (
	"time"

	"github.com/carillonhq/carillon/server/internal/daprapi/daprmetrics"
)

// Metrics counts what Dapr's own scheduler counts. Its methods are called from many goroutines and must not
// wait.
type Metrics interface {
	// Count counts one of the events that package daprmetrics names, under the value of its label.
	Count(counter, label string)
	// Took measures how long a sidecar had a run of the kind.
	Took(kind string, took time.Duration)
	// Sidecars: so many connected (+1) or left (-1).
	Sidecars(change int)
}

// nobody counts nothing.
type nobody struct{}

func (nobody) Count(string, string)       {}
func (nobody) Took(string, time.Duration) {}
func (nobody) Sidecars(int)               {}

// kindOf is what metrics call a job of an app or a reminder.
func kindOf(reminder bool) string {
	if reminder {
		return daprmetrics.KindActor
	}
	return daprmetrics.KindJob
}
