package postgres

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillonhq/carillon/server/store"
)

// Store is a store in a PostgreSQL database.
type Store struct {
	pool   *pgxpool.Pool // of reads and writes
	conns  int           // that it has at most
	leases *pgxpool.Pool
	meta   store.Meta
	log    store.Logger

	commitTimeout time.Duration // of a group, on the wire

	mu     sync.Mutex // guards what follows
	server time.Time  // when the one was started that partitions are claimed of
	closed bool
	flying sync.WaitGroup // groups on their way

	health store.Health
}

var _ store.Store = (*Store)(nil)

// Open opens the store of a database, and creates it if there is none. The URL is one of libpq's,
// "postgres://…", or its list of "keyword=value"; search_path says in which schema the tables are,
// pool_max_conns how many connections there may be for reads and writes (default 16). Several nodes may open
// a store at the same time. An error is [store.ErrAway] if the server cannot be reached, or is starting.
func Open(ctx context.Context, url string, o store.Options) (*Store, error) {
	s, err := open(ctx, url, o)
	if err != nil && away(err) {
		err = store.Away(err)
	}
	return s, err
}

func open(ctx context.Context, url string, o store.Options) (*Store, error) {
	o.Partitions = cmp.Or(o.Partitions, store.DefaultPartitions)
	if err := store.CheckPartitions(o.Partitions); err != nil {
		return nil, err
	}
	config, err := poolConfig(url)
	if err != nil {
		return nil, err
	}
	forLeases := config.Copy()
	forLeases.MaxConns, forLeases.MinConns, forLeases.MinIdleConns = leaseConns, 0, 0
	s := &Store{commitTimeout: commitTimeout, conns: int(config.MaxConns),
		log:    cmp.Or[store.Logger](o.Log, slog.New(slog.DiscardHandler)),
		health: store.Health{Failed: o.Events.Failed, Recovered: o.Events.Recovered, Replaced: ErrReplaced}}
	if s.leases, err = pgxpool.NewWithConfig(ctx, forLeases); err != nil {
		return nil, failed("connect to PostgreSQL", err)
	}
	if err = s.checkServer(ctx); err == nil {
		s.meta, err = migrate(ctx, s.leases, o)
	}
	if err == nil {
		withoutCancels(config)
		s.pool, err = pgxpool.NewWithConfig(ctx, config)
		err = failed("connect to PostgreSQL", err)
	}
	if err != nil {
		s.leases.Close()
		return nil, err
	}
	return s, nil
}

// Shard is a partition as seen by the owner of one term.
func (s *Store) Shard(number int, term store.Term) (store.Shard, error) {
	if err := s.known(number); err != nil {
		return nil, err
	}
	return &shard{s, number, term}, nil
}

// known refuses a number that is no partition's.
func (s *Store) known(number int) error {
	if number < 0 || number > s.meta.ProvingGround() {
		return fmt.Errorf("store: no partition %d of %d", number, s.meta.Partitions)
	}
	return nil
}

// places returns where each partition is in a list, and its number as PostgreSQL takes it.
func (s *Store) places(partitions []int) (at map[int32]int, numbers []int32, err error) {
	at, numbers = make(map[int32]int, len(partitions)), make([]int32, len(partitions))
	for i, p := range partitions {
		if err := s.known(p); err != nil {
			return nil, nil, err
		}
		numbers[i] = int32(p)
		at[numbers[i]] = i
	}
	return at, numbers, nil
}

// Leaser says who lives and who owns what.
func (s *Store) Leaser() store.Leaser { return (*leaser)(s) }

// Meta is what the store was created with.
func (s *Store) Meta() store.Meta { return s.meta.Clone() }

// Close waits for the batches in flight and refuses those that come later.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.flying.Wait()
	s.pool.Close()
	s.leases.Close()
	return nil
}

// begin keeps the store open for a group until end is called.
func (s *Store) begin() (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	s.flying.Add(1)
	return s.flying.Done, nil
}

// heed takes how a write ended.
func (s *Store) heed(err error) {
	if codeOf(err) == codeReadOnly { // new connections are to the server that takes writes, if there is one
		s.pool.Reset()
		s.leases.Reset()
	}
	s.health.Note(err)
}

// isAt takes note of the server that partitions are claimed of. Connections may be to another one, which
// lives on beside it: what that has is not to be read any more.
func (s *Store) isAt(server time.Time) {
	s.mu.Lock()
	was := s.server
	s.server = server
	s.mu.Unlock()
	if !was.Equal(server) {
		s.pool.Reset()
	}
}
