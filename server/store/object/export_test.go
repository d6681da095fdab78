package object

import (
	"context"
	"time"

	"github.com/carillonhq/carillon/server/store/contents"
)

// Hurried returns options of a store that writes snapshots of a partition after so many batches, and deletes
// what nobody needs after grace.
func Hurried(o Options, batches int, grace time.Duration) Options {
	o.grace = grace
	o.pace = pace{look: 5 * time.Millisecond, bytes: 1 << 40, segments: batches, behind: 1 << 40,
		sweep: grace,
		stale: 3 * time.Second, seals: time.Hour}
	return o
}

// ReadAfter returns what a partition holds to a call that has asked for the root before something happened.
func (s *Store) ReadAfter(ctx context.Context, partition int, happens func()) (*contents.Partition, error) {
	w := s.view()
	if _, _, err := w.known(ctx); err != nil {
		return nil, err
	}
	happens()
	return s.replicas[partition].current(ctx, w)
}

// InMemory is how many jobs and runs are in memory, of all partitions.
func (s *Store) InMemory() (n int) {
	for _, r := range s.replicas {
		n += r.inMemory()
	}
	return n
}
