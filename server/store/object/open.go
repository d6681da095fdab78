package object

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
	"github.com/carillonhq/carillon/server/store/inuse"
	"github.com/carillonhq/carillon/server/store/object/bucket"
	"github.com/carillonhq/carillon/server/store/serverclock"
)

// Store is a store in a bucket.
type Store struct {
	opt      Options
	bucket   *requests
	clock    *serverclock.Clock
	opened   time.Time
	meta     store.Meta
	roots    *roots
	known    atomic.Pointer[root] // the newest that was read or written
	journals *journals
	logs     *logs
	replicas []*replica
	keeper   *keeper
	health   store.Health
	calls    inuse.Guard
	spared   atomic.Int64  // how many records are in memory at most (spare.go); 0: all
	closing  chan struct{} // closed when the store is to be closed: nobody waits for a partition any more
	ending   chan struct{} // closed when no call is under way after that
	close    sync.Once     // of closing
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Grouper  = (*Store)(nil)
	_ store.Gatherer = (*Store)(nil)
	_ store.Counter  = (*Store)(nil)
	_ store.Roomer   = (*Store)(nil)
	_ store.Meter    = (*Store)(nil)
	_ store.Sparer   = (*Store)(nil)
)

// rootName is the name of the object root.
const rootName = "root"

// Open opens the store in a bucket, and creates it if it is not there. An error is [store.ErrAway] if the
// bucket does not answer.
func Open(ctx context.Context, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{opt: o, bucket: &requests{to: o.Bucket, within: o.Timeout}, clock: o.Clock, opened: time.Now(),
		closing: make(chan struct{}), ending: make(chan struct{}),
		health: store.Health{Failed: o.Events.Failed, Recovered: o.Events.Recovered, Replaced: ErrReplaced}}
	s.roots, s.logs = &roots{s: s}, newLogs(s)
	s.journals = &journals{s: s, all: map[string]*journal{}}
	if err := s.create(ctx); err != nil {
		return nil, fmt.Errorf("store: %s: %w", o.Where, err)
	}
	for p := range s.meta.ProvingGround() + 1 {
		s.replicas = append(s.replicas, newReplica(s, p))
	}
	s.calls.Open(len(s.replicas))
	if err := s.extend(ctx); err != nil {
		s.roots.close()
		return nil, fmt.Errorf("store: %s: %w", o.Where, err)
	}
	s.keeper = newKeeper(s)
	return s, nil
}

// create reads the root, or makes one if there is none.
func (s *Store) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opt.Timeout)
	defer cancel()
	o, err := s.get(ctx, rootName, "")
	if errors.Is(err, bucket.ErrAbsent) && s.opt.Existing {
		return store.ErrNoStore
	}
	if errors.Is(err, bucket.ErrAbsent) {
		data, failed := newRoot(s.opt).encode()
		if failed != nil {
			return failed
		}
		if _, err = s.bucket.Create(ctx, s.name(rootName), data); err == nil || errors.Is(err, bucket.ErrExists) {
			o, err = s.get(ctx, rootName, "") // perhaps another process was first
		}
	}
	switch {
	case errors.Is(err, bucket.ErrRefused):
		return err
	case err != nil:
		return store.Away(err)
	}
	r, err := decodeRoot(o.Data)
	if err != nil {
		return err
	}
	s.meta = store.Meta{Format: r.Format, Partitions: len(r.Partitions) - 1, MACKey: r.Secret}
	s.roots.known, s.roots.version = r, o.Version
	s.known.Store(r)
	return nil
}

// name is the whole name of an object.
func (s *Store) name(object string) string { return s.opt.Prefix + "/" + object }

// get reads an object of the store.
func (s *Store) get(ctx context.Context, object string, known bucket.Version) (bucket.Object, error) {
	return s.bucket.Get(ctx, s.name(object), known)
}

// learn takes what the root says now. It is called in rounds.
func (s *Store) learn(r *root) {
	if s.known.Swap(r) == r {
		return
	}
	for _, p := range s.replicas {
		p.learn(&r.Partitions[p.number])
	}
	s.logs.forget(r)
	s.journals.forget(r)
}

// disown has every write ask the root first: the store is not the one that was opened.
func (s *Store) disown() {
	for _, r := range s.replicas {
		r.hold.Store(nil)
	}
}

// failure is the error of a call that is not an Apply, or of an Apply that certainly changed nothing.
func failure(err error) error { return fmt.Errorf("store: bucket: %w", err) }

// Shard is a partition as seen by the owner of one term.
func (s *Store) Shard(partition int, term store.Term) (store.Shard, error) {
	if err := s.calls.Check(partition); err != nil {
		return nil, err
	}
	h := &shard{s: s, r: s.replicas[partition], term: term}
	h.Reader = contents.Reader{Current: h.current}
	return h, nil
}

// Leaser says who lives and who owns what.
func (s *Store) Leaser() store.Leaser { return leaser{s} }

// Meta is what the store was created with.
func (s *Store) Meta() store.Meta { return s.meta.Clone() }

// Room implements [store.Roomer]: what this process owns is in its memory.
func (s *Store) Room() error {
	n := 0
	for _, r := range s.replicas {
		if v := r.is.Load(); v != nil && v.holds != nil && r.hold.Load() != nil {
			n += v.holds.Len()
		}
	}
	return contents.Room(n, s.opt.Records, "the bucket")
}

// Close waits for the batches in flight.
func (s *Store) Close() error {
	s.close.Do(func() { close(s.closing) })
	return s.calls.Close(func() error {
		s.keeper.close()
		s.roots.close()
		close(s.ending)
		s.journals.close()
		s.logs.close()
		return nil
	})
}
