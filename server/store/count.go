package store

import (
	"context"

	"github.com/carillonhq/carillon"
)

// Counts is how many staged and dead runs a partition has, and how many jobs in each phase, which operators
// watch.
type Counts struct {
	Staged map[string]StagedCount // by queue, without those that have none
	Dead   map[string]int         // dead runs by namespace, without those that have none
	Phases map[carillon.Phase]int // jobs by phase, without those that are scheduled, and phases that have none
}

// StagedCount is what is staged under a queue.
type StagedCount struct {
	N      int
	Oldest int64 // due time of the oldest run, UTC ns
}

// NewCounts returns empty counts.
func NewCounts() Counts {
	return Counts{Staged: map[string]StagedCount{}, Dead: map[string]int{}, Phases: map[carillon.Phase]int{}}
}

// AddStaged adds n records of a queue, of which the oldest is due at oldest.
func (c Counts) AddStaged(queue string, n int, oldest int64) {
	s, ok := c.Staged[queue]
	if !ok || oldest < s.Oldest {
		s.Oldest = oldest
	}
	s.N += n
	c.Staged[queue] = s
}

// Add adds the counts of another partition.
func (c Counts) Add(other Counts) {
	for queue, s := range other.Staged {
		c.AddStaged(queue, s.N, s.Oldest)
	}
	for namespace, n := range other.Dead {
		c.Dead[namespace] += n
	}
	for phase, n := range other.Phases {
		c.Phases[phase] += n
	}
}

// Counter is a [Store] that can count without reading what it counts. It is optional: without it the engine
// has no gauges of staged and dead runs and of jobs.
type Counter interface {
	// Count counts what each of the partitions, given once each, holds; the answers are in their order. Each
	// is a state of the partition at some time between the call and its end; if it is written meanwhile, the
	// parts may be of different times.
	Count(ctx context.Context, partitions []int) ([]Counts, error)
	// CountJobs counts all jobs of each of the partitions in the same way. It may take time for each job, and
	// is called rarely.
	CountJobs(ctx context.Context, partitions []int) ([]int, error)
}
