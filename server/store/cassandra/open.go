package cassandra

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
	"github.com/carillonhq/carillon/server/store/inuse"
)

// Store is a store in Cassandra.
type Store struct {
	opt      Options
	wire     *wire
	clock    *clock
	meta     store.Meta
	replicas []*replica
	cleaner  *cleaner
	health   store.Health
	slots    chan struct{} // of batches on their way
	changing sync.Mutex    // held while owners or members are changed: those of one process come one by one
	calls    inuse.Guard
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Reader   = (*Store)(nil)
	_ store.Gatherer = (*Store)(nil)
	_ store.Counter  = (*Store)(nil)
	_ store.Roomer   = (*Store)(nil)
)

// inFlight is how many batches are on their way at once: with more of them none gets through sooner, and
// leases have to wait behind them. Those that wait grow meanwhile.
const inFlight = 16

// Open connects to Cassandra and creates the store if it is not there. An error is [store.ErrAway] if no node
// can be reached, or too few of them.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := open(ctx, o)
	if err != nil && away(err) {
		err = store.Away(err)
	}
	return s, err
}

func open(ctx context.Context, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{opt: o, slots: make(chan struct{}, inFlight),
		health: store.Health{Failed: o.Events.Failed, Recovered: o.Events.Recovered, Replaced: ErrReplaced}}
	if s.wire, err = dial(&o); err != nil {
		return nil, fmt.Errorf("store: connect to Cassandra at %v: %w", o.Addresses, err)
	}
	if err := s.create(ctx); err != nil {
		s.wire.close()
		return nil, fmt.Errorf("store: Cassandra at %v: %w", o.Addresses, err)
	}
	for p := range s.meta.ProvingGround() + 1 {
		s.replicas = append(s.replicas, newReplica(s, p))
	}
	s.calls.Open(len(s.replicas))
	s.clock = newClock(ctx, s)
	if err := s.extend(ctx); err != nil {
		s.clock.close()
		s.wire.close()
		return nil, fmt.Errorf("store: Cassandra at %v: %w", o.Addresses, err)
	}
	s.cleaner = newCleaner(s)
	return s, nil
}

// ErrReplaced says that there is another store, or none, where there was the one that was opened.
var ErrReplaced = errors.New("store: Cassandra has another store, or none, in the place of the one that was opened: " +
	"start the node again, if that is as it should be")

// isSame asks whether the store is the one that was opened: another one has another secret.
func (s *Store) isSame(ctx context.Context) error {
	found, err := s.readStore(ctx)
	switch {
	case noTables(err):
		err = ErrReplaced
	case err != nil:
		err = failure(err)
	case !bytes.Equal(found.secret, s.meta.MACKey):
		err = ErrReplaced
	default:
		s.health.Same()
		return nil
	}
	if !errors.Is(err, context.Canceled) {
		s.health.Note(err)
	}
	return err
}

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
		if v := r.is.Load(); v != nil && r.mine.Load() != nil {
			n += v.holds.Len()
		}
	}
	return contents.Room(n, s.opt.Records, "Cassandra")
}

// Close waits for the batches in flight.
func (s *Store) Close() error {
	return s.calls.Close(func() error {
		s.cleaner.close()
		for _, r := range s.replicas {
			r.newest.Close()
		}
		s.clock.close()
		s.wire.close()
		return nil
	})
}
