package store

import (
	"context"
	"time"
)

// Term is one stretch of ownership of a partition. Epochs grow; the nonce tells apart two owners who both believe in one
// epoch after a failover that lost writes.
type Term struct {
	Epoch uint64
	Nonce uint64
}

// IsZero reports whether the term owns nothing.
func (t Term) IsZero() bool { return t == Term{} }

// Leaser says who lives and who owns what. A lease only decides when to try; the term inside each Apply decides who wins.
// Expiry is judged by the store's clock.
type Leaser interface {
	// Now is the store's clock.
	Now(ctx context.Context) (time.Time, error)
	// Join writes or renews the member; it counts as living for ttl from now. While a member of the same id and another nonce
	// lives, it changes nothing and returns [ErrTaken]; one that has expired is replaced.
	Join(ctx context.Context, m Member, ttl time.Duration) error
	// Retire is Join of a member that is to own nothing: its capacity is 0. It is done only while another member lives whose
	// capacity is above 0, in one step with it, so that of several that retire at once one stays; otherwise it changes nothing and
	// returns [ErrLast]. A member that does not live may retire too.
	Retire(ctx context.Context, m Member, ttl time.Duration) error
	// Leave removes the member if it has that nonce; 0 is any. An unknown id or another nonce changes nothing and is no error.
	// It is also how a newcomer frees its own id of a node that was found not to answer.
	Leave(ctx context.Context, id string, nonce uint64) error
	// Members returns those that live, by id.
	Members(ctx context.Context) ([]Member, error)
	// Claim takes each partition that is free, expired or the node's own, under a term with a greater epoch than any before
	// and a fresh nonce. The result has one entry per partition; a zero term means that somebody else holds it.
	// On an error nothing may be believed: claim again.
	Claim(ctx context.Context, node string, partitions []int, ttl time.Duration) ([]Term, error)
	// Renew extends the leases and returns those that are no longer held under the given term.
	Renew(ctx context.Context, node string, held []Holding, ttl time.Duration) (lost []Holding, err error)
	// Release frees the partitions that are still held under the given term; writes of those terms are fenced from then on.
	Release(ctx context.Context, node string, held []Holding) error
	// Owners returns every partition that was ever claimed, by number. Of one whose owner has ended without a release it tells until
	// when the lease was given or renewed, over a crash too: that was durable before Claim or Renew returned.
	Owners(ctx context.Context) ([]Owner, error)
}

// Member is a living node.
type Member struct {
	ID       string
	Address  string // where its peers and its clients reach its gRPC
	HTTP     string // where its REST is reached; may be empty
	Sidecars string // where sidecars of Dapr reach it; may be empty
	Capacity int    // its share of the partitions, relative to that of others; 0: it lives but is to own nothing
	Nonce    uint64 // of its process: random, not 0
	Settings string // what it was started with, for the others to compare; may be empty
	// State is what it says of itself to the others: whether it is fit, what it refuses, whether it leaves. Empty of a node of a
	// version that says nothing.
	State string
}

// Holding is a partition held under a term.
type Holding struct {
	Partition int
	Term      Term
}

// Owner says who holds a partition and until when, by the store's clock; Node is empty if nobody does. Until stays when the lease has
// ended, or the owner was killed: the term was not in force after it. It is zero where that is not known, as of a term that was
// released.
type Owner struct {
	Partition int
	Term      Term
	Node      string
	Until     time.Time
}
