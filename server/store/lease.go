package store

import (
	"context"
	"time"
)

// Term is one stretch of ownership of a partition. Epochs only grow. The nonce tells apart two owners that
// both got the same epoch because a failover lost writes.
type Term struct {
	Epoch uint64
	Nonce uint64
}

// IsZero reports whether the term owns nothing.
func (t Term) IsZero() bool { return t == Term{} }

// Leaser keeps the members and the owners of partitions. Expiry is judged by the store's clock.
type Leaser interface {
	Registry
	Leases
}

// Registry keeps the members: the nodes that live.
type Registry interface {
	// Join writes or renews the member, which counts as living for ttl from now. While a member with the same
	// id and another nonce lives, Join changes nothing and returns [ErrTaken]; an expired one is replaced.
	Join(ctx context.Context, m Member, ttl time.Duration) error
	// Retire is Join of a member that is to own nothing: its capacity is 0. It succeeds only while another
	// living member has a capacity above 0, checked in the same atomic step, so that of several members that
	// retire at once one stays. Otherwise it changes nothing and returns [ErrLast]. A member that does not
	// live may retire, too.
	Retire(ctx context.Context, m Member, ttl time.Duration) error
	// Leave removes the member if it has that nonce; 0 matches any. An unknown id or another nonce changes
	// nothing and is no error. A new node also uses it to take its own id from a node that was found not to
	// answer.
	Leave(ctx context.Context, id string, nonce uint64) error
	// Members returns the living members, by id.
	Members(ctx context.Context) ([]Member, error)
}

// Leases keeps the owners of partitions. A lease only decides when a node tries to claim; the term inside
// each Apply decides which owner wins.
type Leases interface {
	// Now returns the time of the store's clock.
	Now(ctx context.Context) (time.Time, error)
	// Claim takes each partition that is free, expired or the node's own, under a term with a fresh nonce and
	// a greater epoch than any before. The result has one entry per partition; a zero term means that another
	// node holds it. After an error nothing is known: claim again.
	Claim(ctx context.Context, node string, partitions []int, ttl time.Duration) ([]Term, error)
	// Renew extends the leases and returns those that are no longer held under the given term.
	Renew(ctx context.Context, node string, held []Holding, ttl time.Duration) (lost []Holding, err error)
	// Release frees the partitions that are still held under the given term; from then on writes of those
	// terms are fenced.
	Release(ctx context.Context, node string, held []Holding) error
	// Owners returns every partition that was ever claimed, by number; in a store that was created with an
	// [Options.Epoch] also others, whose terms have no nonce. If an owner ended without a release,
	// Until still says until when its lease was given or renewed, even after a crash: it was durable before
	// Claim or Renew returned.
	Owners(ctx context.Context) ([]Owner, error)
}

// Member is a living node.
type Member struct {
	ID       string
	Address  string // gRPC address for peers and clients
	HTTP     string // REST address; may be empty
	Sidecars string // address for Dapr sidecars; may be empty
	Capacity int    // its weight in sharing the partitions; 0: it is to own nothing
	Nonce    uint64 // of its process: random, not 0
	Settings string // its settings, for other nodes to compare; may be empty
	// State is what it reports of itself to other nodes: whether it is fit, what it refuses, whether it
	// leaves. It is empty if the node's version reports nothing.
	State string
}

// Holding is a partition held under a term.
type Holding struct {
	Partition int
	Term      Term
}

// Owner tells which node holds a partition and until when, by the store's clock; Node is empty if none does.
// Until stays when the lease has ended or the owner was killed: the term was not in force after it. It is
// zero where that is not known, as for a term that was released.
type Owner struct {
	Partition int
	Term      Term
	Node      string
	Until     time.Time
}
