package object

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/contents"
	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// snapshot is what a partition held at some time, in objects of its own: each is a checksummed batch of some
// of its records, runs and metadata records.
type snapshot struct {
	ID    string `json:"id"`
	Parts int    `json:"parts"`
	Size  int64  `json:"size"` // of all of them, in bytes
}

// mostOfPart is how large an object of a snapshot is, about.
const mostOfPart = 4 << 20

func snapshotPrefix(partition int) string { return fmt.Sprintf("snapshots/%05d/", partition) }

func (s *snapshot) name(partition, part int) string {
	return fmt.Sprintf("%s%s/%06d", snapshotPrefix(partition), s.ID, part)
}

// save writes a snapshot of what a partition holds.
func (r *replica) save(ctx context.Context, p *contents.Partition) (snapshot, error) {
	s := snapshot{ID: strconv.FormatUint(rand.Uint64(), 36)}
	var b store.Batch
	size := 0
	flush := func() error {
		data := summed(codec.AppendBatch([]byte(snapshotMagic), &b))
		b, size = store.Batch{}, 0
		if err := r.s.persist(ctx, s.name(r.number, s.Parts), data); err != nil {
			return failure(err)
		}
		s.Parts++
		s.Size += int64(len(data))
		return nil
	}
	grown := func(by int) error {
		if size += by + 200; size < mostOfPart {
			return nil
		}
		return flush()
	}
	for rec := range p.Records() {
		b.Puts = append(b.Puts, *rec)
		if err := grown(len(rec.Spec)); err != nil {
			return s, err
		}
	}
	for run := range p.AllRuns() {
		b.Runs = append(b.Runs, *run)
		if err := grown(len(run.Response) + len(run.Spec)); err != nil {
			return s, err
		}
	}
	for m := range p.AllMetaRecords() {
		b.MetaRecords = append(b.MetaRecords, *m)
		if err := grown(len(m.Value)); err != nil {
			return s, err
		}
	}
	if size > 0 || s.Parts == 0 {
		return s, flush()
	}
	return s, nil
}

// mostPersists is how often a part of a snapshot is written.
const mostPersists = 5

// persist creates an object whose name nobody else uses, also if the bucket has too much to do at first.
func (s *Store) persist(ctx context.Context, name string, data []byte) error {
	for try := 0; ; try++ {
		_, err := s.bucket.Create(ctx, s.name(name), data)
		if err == nil || errors.Is(err, bucket.ErrExists) { // by an earlier try
			return nil
		}
		if try+1 == mostPersists || errors.Is(err, bucket.ErrRefused) {
			return err
		}
		select {
		case <-time.After(firstPause << try):
		case <-ctx.Done():
			return err
		}
	}
}

// named notes that the root names a snapshot of an earlier version. The caller holds the lock.
func (r *replica) named(of *version, made snapshot) {
	is := r.is.Load()
	if is == nil || is.snapshot != of.snapshot {
		return
	}
	next := *is
	next.snapshot, next.since, next.segments = made, is.since-of.since, is.segments-of.segments
	next.late = slices.Clone(is.late[max(len(is.late)-next.segments, 0):]) // so that the others are let go
	r.is.Store(&next)
}

// load reads a snapshot; the zero value is that of an empty partition.
func (r *replica) load(ctx context.Context, s snapshot) (*contents.Partition, error) {
	p := contents.New(r.number)
	for part := range s.Parts {
		name := s.name(r.number, part)
		o, err := r.s.get(ctx, name, "")
		if err != nil {
			return nil, gone(name, err)
		}
		in, err := unsummed(o.Data, snapshotMagic)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", store.ErrDamaged, name, err)
		}
		b, err := codec.DecodeBatch(in.B)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		p.Change(b, nil)
	}
	return p, nil
}
