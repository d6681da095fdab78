package memory

import (
	"cmp"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/mackey"
	"github.com/carillonhq/carillon/server/store/members"
)

// Options say what a store is created with. The zero value is a store with the defaults.
type Options struct {
	Partitions int              // P; default store.DefaultPartitions
	Epoch      uint64           // see [store.Options]
	MACKey     []byte           // default 32 random bytes; fixed in a simulation that is to be repeated
	Now        func() time.Time // the store's clock; default time.Now
	Nonce      func() uint64    // of a new term; default random. Called by many goroutines, never twice the same
}

// Store is a store in memory.
type Store struct {
	meta       store.Meta
	now        func() time.Time
	nonce      func() uint64
	partitions []*partition
	members    *members.Registry
}

var _ store.Store = (*Store)(nil)

// New makes an empty store.
func New(o Options) *Store {
	s := &Store{
		meta: store.Meta{
			Format:     store.Format(),
			Partitions: cmp.Or(o.Partitions, store.DefaultPartitions),
			MACKey:     mackey.New(o.MACKey),
		},
		now:   o.Now,
		nonce: o.Nonce,
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.nonce == nil {
		s.nonce = mathrand.Uint64 // seeded by the operating system
	}
	s.members = members.New(s.now)
	for number := range s.meta.ProvingGround() + 1 {
		s.partitions = append(s.partitions, newPartition(number, o.Epoch))
	}
	return s
}

// Shard is a partition as seen by the owner of one term.
func (s *Store) Shard(number int, term store.Term) (store.Shard, error) {
	p, err := s.partition(number)
	if err != nil {
		return nil, err
	}
	return &shard{p: p, term: term}, nil
}

func (s *Store) partition(number int) (*partition, error) {
	if number < 0 || number >= len(s.partitions) {
		return nil, fmt.Errorf("store: no partition %d of %d", number, len(s.partitions))
	}
	return s.partitions[number], nil
}

// Leaser says who lives and who owns what.
func (s *Store) Leaser() store.Leaser { return leaser{s.members, s} }

// Meta is what the store was created with.
func (s *Store) Meta() store.Meta { return s.meta.Clone() }

// Close waits for the batches in flight and refuses those that come later.
func (s *Store) Close() error {
	for _, p := range s.partitions {
		p.close()
	}
	return nil
}
