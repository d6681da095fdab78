package store

import "context"

// Counts is how much of what needs an operator's eye lies in a partition.
type Counts struct {
	Staged map[string]StagedCount // by queue, without those in which nothing is staged
	Dead   map[string]int         // dead runs by namespace, without those that have none
}

// StagedCount is what is staged under a queue.
type StagedCount struct {
	N      int
	Oldest int64 // run due of the oldest, UTC ns
}

// NewCounts are counts of nothing.
func NewCounts() Counts { return Counts{Staged: map[string]StagedCount{}, Dead: map[string]int{}} }

// AddStaged counts n records of a queue of which the oldest is due at oldest.
func (c Counts) AddStaged(queue string, n int, oldest int64) {
	s, ok := c.Staged[queue]
	if !ok || oldest < s.Oldest {
		s.Oldest = oldest
	}
	s.N += n
	c.Staged[queue] = s
}

// Add counts what lies elsewhere.
func (c Counts) Add(other Counts) {
	for queue, s := range other.Staged {
		c.AddStaged(queue, s.N, s.Oldest)
	}
	for namespace, n := range other.Dead {
		c.Dead[namespace] += n
	}
}

// Counter is a [Store] that can count without reading what it counts. Stores need not: an engine on one that cannot has no
// gauges of staged and dead runs.
type Counter interface {
	// Count counts what each of the partitions, given once each, holds; the answers are in their order. Each partition counts as it
	// stood some time between the call and its end; of one that is written to meanwhile the parts may be of different times.
	Count(ctx context.Context, partitions []int) ([]Counts, error)
}
