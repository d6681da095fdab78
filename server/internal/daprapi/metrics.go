package daprapi

import "time"

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
