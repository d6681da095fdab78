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

// Look has less in memory, as the keeper does each time when that takes no snapshot, as if nothing had been
// read for so long.
func (s *Store) Look(ctx context.Context, after time.Duration) error {
	for _, r := range s.replicas {
		if at := r.used.Load(); at != never {
			r.used.Store(at - int64(after))
		}
	}
	return s.lighten(ctx)
}

// SaveUnseen writes a snapshot of a partition that is not in memory, and deletes the one before, as if the
// answer of the root had been lost and the objects had been swept since.
func (s *Store) SaveUnseen(ctx context.Context, partition int) error {
	r := s.replicas[partition]
	v := r.is.Load()
	made, err := r.saveVersion(ctx, v)
	if err != nil {
		return err
	}
	if _, err = s.roots.change(ctx, func(_ context.Context, root *root) (bool, error) {
		p := &root.Partitions[partition]
		p.Snapshot = made
		return p.cut(v.at), nil
	}, nil); err != nil {
		return err
	}
	for part := range v.snapshot.Parts {
		if err := s.bucket.Delete(ctx, s.name(v.snapshot.name(partition, part))); err != nil {
			return err
		}
	}
	return nil
}

// SaveAlone writes a snapshot of a partition that the root is not to name.
func (s *Store) SaveAlone(ctx context.Context, partition int) error {
	r := s.replicas[partition]
	_, err := r.saveVersion(ctx, r.is.Load())
	return err
}
