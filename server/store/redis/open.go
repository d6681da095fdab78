package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/carillonhq/carillon/server/store"
)

// Store is a store in Redis.
type Store struct {
	opt    Options
	client rueidis.Client
	meta   store.Meta
	keys   [][]string // of each partition
	wires  wires

	mu     sync.RWMutex // held for reading by what is in flight
	closed bool

	health store.Health
}

var _ store.Store = (*Store)(nil)

// Timeouts of the connections.
const (
	// connections are 2 to the power of this, to each server. Redis reads 16 KiB of a connection at a time
	// and then, with appendfsync always, syncs: so several share an fsync.
	connections = 2
	// mostTries lets a call meet every connection of a server, and another one that was broken meanwhile.
	mostTries = 1<<connections + 2
)

// Open connects to Redis and creates the store if it is not there. An error is [store.ErrAway] if the server
// cannot be reached, or is starting.
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
	s := &Store{opt: o, health: store.Health{Failed: o.Events.Failed, Recovered: o.Events.Recovered,
		Replaced: ErrReplaced}}
	if s.client, err = rueidis.NewClient(o.client(&s.wires)); err != nil {
		if o.Sentinel == "" && len(o.Addresses) > 1 && strings.Contains(err.Error(), "cluster support disabled") {
			err = errors.New("several addresses are given, and it is no Redis Cluster: give one, or with ?sentinel=NAME those of its sentinels")
		}
		return nil, fmt.Errorf("store: connect to Redis at %v: %w", o.Addresses, err)
	}
	if err := s.checkServers(ctx); err != nil {
		s.client.Close()
		return nil, err
	}
	if err := s.create(ctx); err != nil {
		s.client.Close()
		return nil, err
	}
	for p := range s.meta.ProvingGround() + 1 {
		s.keys = append(s.keys, partitionKeys(o.Prefix, p))
	}
	if err := s.begin(ctx); err != nil {
		s.client.Close()
		return nil, err
	}
	return s, nil
}

// ErrReplaced says that there is another store, or none, where there was the one that was opened.
var ErrReplaced = errors.New("store: Redis has another store, or none, in the place of the one that was opened: " +
	"start the node again, if that is as it should be")

// same refuses who would take partitions of another store than was opened: it may have other partitions, and
// has another secret.
func (s *Store) same(ctx context.Context) error {
	meta, err := ask(ctx, s, func(ctx context.Context) ([]string, error) {
		key := storeKey(s.opt.Prefix, "meta")
		read := s.client.B().Hmget().Key(key).Field("partitions", "key_6").Build()
		return s.client.Do(ctx, read).AsStrSlice()
	})
	switch {
	case err != nil:
	case slices.Equal(meta, []string{strconv.Itoa(s.meta.Partitions), string(s.meta.MACKey)}):
		s.health.Same()
	default:
		err = ErrReplaced
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		s.health.Note(err)
	}
	return err
}

// check refuses a partition that is not there.
func (s *Store) check(partition int) error {
	if partition < 0 || partition >= len(s.keys) {
		return fmt.Errorf("store: no partition %d of %d", partition, len(s.keys))
	}
	return nil
}

// checkAll refuses a call whose context has ended, and partitions that are not there.
func (s *Store) checkAll(ctx context.Context, partitions []int) error {
	for _, p := range partitions {
		if err := s.check(p); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Shard is a partition as seen by the owner of one term.
func (s *Store) Shard(partition int, term store.Term) (store.Shard, error) {
	if err := s.check(partition); err != nil {
		return nil, err
	}
	return &shard{s: s, number: partition, keys: s.keys[partition], term: term}, nil
}

// Leaser says who lives and who owns what.
func (s *Store) Leaser() store.Leaser { return leaser{s} }

// Meta is what the store was created with.
func (s *Store) Meta() store.Meta { return s.meta.Clone() }

// Close waits for the batches in flight.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.client.Close()
	}
	return nil
}

// askTimeout is how long a call that is no Apply tries again when a connection breaks or Redis is being
// loaded.
const askTimeout = 20 * time.Second

// ask does what may be done twice, unless the store is closed. It does it again where a connection was found
// to be broken, as each of those to a server may be that was started again: whether it was done before is not
// known then. The library does so itself with commands that only read.
func ask[T any](ctx context.Context, s *Store, f func(ctx context.Context) (T, error)) (answer T, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return answer, store.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err = f(ctx)
	for tries := 1; tries < mostTries && broken(err) && ctx.Err() == nil; tries++ {
		answer, err = f(ctx)
	}
	s.wires.heed(err)
	if err != nil {
		err = failure(err)
	}
	return answer, err
}
