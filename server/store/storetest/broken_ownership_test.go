package storetest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// brokenOwnership are stores that fence or lease wrongly.
var brokenOwnership = []broken{
	{fault: "ignores the term", caughtBy: "fence/an old term is refused after a new claim",
		build: translates(func(store.Term, store.Owner) bool { return true })},
	{fault: "ignores the term, under load", caughtBy: "fence/nothing of an old term lands after a claim",
		build: forgivesFenced},
	{fault: "compares the epoch and not the nonce", caughtBy: "fence/a term that was never given is refused",
		build: translates(func(t store.Term, o store.Owner) bool { return t.Epoch == o.Term.Epoch })},
	{fault: "takes a greater epoch for the one in force",
		caughtBy: "fence/a term that was never given is refused",
		build:    translates(func(t store.Term, o store.Owner) bool { return t.Epoch > o.Term.Epoch })},
	{fault: "lets the zero term write", caughtBy: "fence/the zero term may only read",
		build: translates(func(t store.Term, _ store.Owner) bool { return t.IsZero() })},
	{fault: "does not fence what was released", caughtBy: "fence/a released term is refused",
		build: writesAfterRelease},
	{fault: "leaves something of a refused batch", caughtBy: "fence/a refused batch changes nothing",
		build: leavesSomething},
	{fault: "fences every partition at a claim", caughtBy: "fence/one partition does not fence another",
		build: fencesAll},
	{fault: "fences the second shard of a term", caughtBy: "fence/two shards of one term may both write",
		build: oneShardATerm},
	{fault: "gives a partition to whoever asks",
		caughtBy: "leaser/somebody else's partition is not", build: leasing(leases{
			claim: func(l store.Leaser, _ string, p []int, ttl time.Duration) ([]store.Term, error) {
				return l.Claim(ctx, "all", p, ttl)
			}})},
	{fault: "looks first and claims then", caughtBy: "leaser/of a hundred claimants one wins",
		build: looksThenClaims},
	{fault: "gives the owner its old term again", caughtBy: "leaser/somebody else's partition is not",
		build: sameTermAgain},
	{fault: "gives one nonce to all", caughtBy: "leaser/nonces differ", build: oneNonce},
	{fault: "answers a claim only for what it gave",
		caughtBy: "leaser/a claim answers partition by partition", build: leasing(leases{
			claim: func(l store.Leaser, node string, p []int, ttl time.Duration) ([]store.Term, error) {
				got, err := l.Claim(ctx, node, p, ttl)
				return slices.DeleteFunc(got, store.Term.IsZero), err
			}})},
	{fault: "never ends a lease", caughtBy: "leaser/an expired lease is free", build: leasing(leases{
		claim: func(l store.Leaser, node string, p []int, _ time.Duration) ([]store.Term, error) {
			return l.Claim(ctx, node, p, 1000*time.Hour)
		}})},
	{fault: "does not renew", caughtBy: "leaser/a renewed lease is not free", build: leasing(leases{
		renew: func(store.Leaser, string, []store.Holding, time.Duration) ([]store.Holding, error) {
			return nil, nil
		}})},
	{fault: "never says that a lease is lost", caughtBy: "leaser/renew says what is lost", build: leasing(leases{
		renew: func(l store.Leaser, node string, h []store.Holding, ttl time.Duration) ([]store.Holding, error) {
			_, err := l.Renew(ctx, node, h, ttl)
			return nil, err
		}})},
	{fault: "renews for any node", caughtBy: "leaser/renew says what is lost", build: leasing(leases{
		renew: func(l store.Leaser, _ string, h []store.Holding, ttl time.Duration) ([]store.Holding, error) {
			return l.Renew(ctx, "node-1", h, ttl)
		}})},
	{fault: "releases what is held under another term", caughtBy: "leaser/release frees only what is held",
		build: releasesAny},
	{fault: "does not release", caughtBy: "leaser/release frees only what is held", build: leasing(leases{
		release: func(store.Leaser, string, []store.Holding) error { return nil }})},
	{fault: "has the proving ground among the owners",
		caughtBy: "leaser/the proving ground is nobody's", build: leasing(leases{
			owners: func(got []store.Owner) []store.Owner {
				return append(got, store.Owner{Partition: 16, Node: "node-1", Term: store.Term{Epoch: 1}})
			}})},
	{fault: "forgets who released", caughtBy: "leaser/owners are all that ever claimed", build: leasing(leases{
		owners: func(got []store.Owner) []store.Owner {
			return slices.DeleteFunc(got, func(o store.Owner) bool { return o.Node == "" })
		}})},
	{fault: "forgets how long leases lasted",
		caughtBy: "leaser/owners tell how long a lease has lasted", build: leasing(leases{
			owners: func(got []store.Owner) []store.Owner {
				for i := range got {
					got[i].Until = time.Time{}
				}
				return got
			}})},
	{fault: "has a clock that stands", caughtBy: "leaser/the clock goes on", build: leasing(leases{
		now: func(time.Time) time.Time { return time.Unix(1, 0) }})},
	{fault: "lists members in any order", caughtBy: "members/those that joined, by id", build: leasing(leases{
		members: func(got []store.Member) []store.Member { slices.Reverse(got); return got }})},
	{fault: "keeps members for ever", caughtBy: "members/an expired member does not live", build: leasing(leases{
		join: func(l store.Leaser, m store.Member, _ time.Duration) error {
			return l.Join(ctx, m, 1000*time.Hour)
		}})},
	{fault: "keeps a member as it first joined",
		caughtBy: "members/joining again renews and rewrites", build: leasing(leases{
			join: func(l store.Leaser, m store.Member, ttl time.Duration) error {
				got, err := l.Members(ctx)
				if i := slices.IndexFunc(got, func(x store.Member) bool { return x.ID == m.ID }); i >= 0 {
					m = got[i]
				}
				if err != nil {
					return err
				}
				return l.Join(ctx, m, ttl)
			}})},
	{fault: "does not let members leave", caughtBy: "members/leave removes",
		build: leasing(leases{leave: func(store.Leaser, string, uint64) error { return nil }})},
	{fault: "lets any node remove a member", caughtBy: "members/leave removes the member of that nonce only",
		build: leasing(leases{
			leave: func(l store.Leaser, id string, _ uint64) error { return l.Leave(ctx, id, 0) }})},
	{fault: "knows no wildcard", caughtBy: "members/leave removes", build: leasing(leases{
		leave: func(l store.Leaser, id string, nonce uint64) error {
			if nonce == 0 {
				return nil
			}
			return l.Leave(ctx, id, nonce)
		}})},
	{fault: "gives a name twice", caughtBy: "members/a living member's id is taken", build: leasing(leases{
		join: func(l store.Leaser, m store.Member, ttl time.Duration) error {
			err := l.Join(ctx, m, ttl)
			if errors.Is(err, store.ErrTaken) {
				err = errors.Join(l.Leave(ctx, m.ID, 0), l.Join(ctx, m, ttl))
			}
			return err
		}})},
	{fault: "says taken and takes it", caughtBy: "members/a living member's id is taken", build: leasing(leases{
		join: func(l store.Leaser, m store.Member, ttl time.Duration) error {
			err := l.Join(ctx, m, ttl)
			if errors.Is(err, store.ErrTaken) {
				return errors.Join(err, l.Leave(ctx, m.ID, 0), l.Join(ctx, m, ttl))
			}
			return err
		}})},
	{fault: "retires the last", caughtBy: "members/the last one cannot retire", build: leasing(leases{
		retire: func(l store.Leaser, m store.Member, ttl time.Duration) error { return l.Join(ctx, m, ttl) }})},
	{fault: "looks first who stays, and retires then",
		caughtBy: "members/of many that retire at once one stays", build: leasing(leases{
			retire: func(l store.Leaser, m store.Member, ttl time.Duration) error {
				got, err := l.Members(ctx)
				<-time.After(time.Millisecond)
				if err == nil && !slices.ContainsFunc(got,
					func(o store.Member) bool { return o.ID != m.ID && o.Capacity > 0 }) {
					err = store.ErrLast
				}
				if err != nil {
					return err
				}
				return l.Join(ctx, m, ttl)
			}})},
	{fault: "lets nobody retire", caughtBy: "members/one retires while another may own something", build: leasing(leases{
		retire: func(store.Leaser, store.Member, time.Duration) error { return store.ErrLast }})},
	{fault: "forgets the settings", caughtBy: "members/those that joined, by id", build: leasing(leases{
		join: func(l store.Leaser, m store.Member, ttl time.Duration) error {
			m.Settings = ""
			return l.Join(ctx, m, ttl)
		}})},
	{fault: "keeps the id of the dead", caughtBy: "members/an expired member's id is free", build: keepsIDs},
}

var ctx = context.Background()

// ownerOf is who holds a partition, as the store under the fault knows.
func ownerOf(m *memory.Store, partition int) store.Owner {
	owners, _ := m.Leaser().Owners(ctx)
	for _, o := range owners {
		if o.Partition == partition {
			return o
		}
	}
	return store.Owner{}
}

// translates turns a wrong term into the one in force where the fault says so.
func translates(wrong func(t store.Term, o store.Owner) bool) func(m *memory.Store) faults {
	return func(m *memory.Store) faults {
		return faults{apply: func(partition int, term store.Term, b *store.Batch, next func(*store.Batch) error) error {
			if o := ownerOf(m, partition); term != o.Term && wrong(term, o) {
				return applyAs(m, partition, o.Term, b)
			}
			return next(b)
		}}
	}
}

func applyAs(m *memory.Store, partition int, term store.Term, b *store.Batch) error {
	s, err := m.Shard(partition, term)
	if err != nil {
		return err
	}
	return s.Apply(ctx, b)
}

// forgivesFenced applies what was fenced a few times under the term in force.
func forgivesFenced(m *memory.Store) faults {
	return faults{apply: func(partition int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
		err := next(b)
		for store.OutcomeOf(err) == store.Fenced {
			err = applyAs(m, partition, ownerOf(m, partition).Term, b)
		}
		return err
	}}
}

func writesAfterRelease(m *memory.Store) faults {
	return faults{apply: func(partition int, term store.Term, b *store.Batch, next func(*store.Batch) error) error {
		o := ownerOf(m, partition)
		if o.Node != "" || o.Term != term {
			return next(b)
		}
		ghost, err := m.Leaser().Claim(ctx, "ghost", []int{partition}, time.Hour)
		if err != nil {
			return err
		}
		return applyAs(m, partition, ghost[0], b)
	}}
}

func leavesSomething(m *memory.Store) faults {
	return faults{apply: func(partition int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
		err := next(b)
		if store.OutcomeOf(err) == store.Fenced {
			_ = applyAs(m, partition, ownerOf(m, partition).Term, &store.Batch{Deletes: b.Deletes})
		}
		return err
	}}
}

// fencesAll knows one term for the whole store.
func fencesAll(*memory.Store) faults {
	var last store.Term
	f := leasing(leases{claim: func(l store.Leaser, node string, p []int, ttl time.Duration) ([]store.Term, error) {
		got, err := l.Claim(ctx, node, p, ttl)
		last = got[len(got)-1]
		return got, err
	}})(nil)
	f.apply = func(_ int, term store.Term, b *store.Batch, next func(*store.Batch) error) error {
		if term != last {
			return store.ErrFenced
		}
		return next(b)
	}
	return f
}

func oneShardATerm(*memory.Store) faults {
	seen := map[store.Term]int{}
	return faults{term: func(_ int, t store.Term) store.Term {
		if seen[t]++; seen[t] > 1 {
			return store.Term{}
		}
		return t
	}}
}

// leases are the hooks of a faulty leaser.
type leases struct {
	now     func(time.Time) time.Time
	claim   func(l store.Leaser, node string, partitions []int, ttl time.Duration) ([]store.Term, error)
	renew   func(l store.Leaser, node string, held []store.Holding, ttl time.Duration) ([]store.Holding, error)
	release func(l store.Leaser, node string, held []store.Holding) error
	owners  func(got []store.Owner) []store.Owner
	members func(got []store.Member) []store.Member
	join    func(l store.Leaser, m store.Member, ttl time.Duration) error
	retire  func(l store.Leaser, m store.Member, ttl time.Duration) error
	leave   func(l store.Leaser, id string, nonce uint64) error
}

func leasing(f leases) func(*memory.Store) faults {
	return func(*memory.Store) faults {
		return faults{leaser: func(l store.Leaser) store.Leaser { return &faultyLeaser{l, f} }}
	}
}

// faultyLeaser is a leaser with faults.
type faultyLeaser struct {
	store.Leaser
	faults leases
}

func (l *faultyLeaser) Now(ctx context.Context) (time.Time, error) {
	t, err := l.Leaser.Now(ctx)
	if l.faults.now != nil {
		t = l.faults.now(t)
	}
	return t, err
}

func (l *faultyLeaser) Claim(ctx context.Context, node string, p []int,
	ttl time.Duration) ([]store.Term, error) {
	if l.faults.claim != nil {
		return l.faults.claim(l.Leaser, node, p, ttl)
	}
	return l.Leaser.Claim(ctx, node, p, ttl)
}

func (l *faultyLeaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) ([]store.Holding, error) {
	if l.faults.renew != nil {
		return l.faults.renew(l.Leaser, node, held, ttl)
	}
	return l.Leaser.Renew(ctx, node, held, ttl)
}

func (l *faultyLeaser) Release(ctx context.Context, node string, held []store.Holding) error {
	if l.faults.release != nil {
		return l.faults.release(l.Leaser, node, held)
	}
	return l.Leaser.Release(ctx, node, held)
}

func (l *faultyLeaser) Owners(ctx context.Context) ([]store.Owner, error) {
	got, err := l.Leaser.Owners(ctx)
	if l.faults.owners != nil {
		got = l.faults.owners(got)
	}
	return got, err
}

func (l *faultyLeaser) Members(ctx context.Context) ([]store.Member, error) {
	got, err := l.Leaser.Members(ctx)
	if l.faults.members != nil {
		got = l.faults.members(got)
	}
	return got, err
}

func (l *faultyLeaser) Join(ctx context.Context, m store.Member, ttl time.Duration) error {
	if l.faults.join != nil {
		return l.faults.join(l.Leaser, m, ttl)
	}
	return l.Leaser.Join(ctx, m, ttl)
}

func (l *faultyLeaser) Retire(ctx context.Context, m store.Member, ttl time.Duration) error {
	if l.faults.retire != nil {
		return l.faults.retire(l.Leaser, m, ttl)
	}
	return l.Leaser.Retire(ctx, m, ttl)
}

func (l *faultyLeaser) Leave(ctx context.Context, id string, nonce uint64) error {
	if l.faults.leave != nil {
		return l.faults.leave(l.Leaser, id, nonce)
	}
	return l.Leaser.Leave(ctx, id, nonce)
}

// keepsIDs refuses an id for ever to whoever was not the first to have it.
func keepsIDs(*memory.Store) faults {
	var mu sync.Mutex
	first := map[string]uint64{}
	f := leases{join: func(l store.Leaser, m store.Member, ttl time.Duration) error {
		mu.Lock()
		defer mu.Unlock()
		if nonce, ok := first[m.ID]; ok && nonce != m.Nonce {
			return store.ErrTaken
		}
		first[m.ID] = m.Nonce
		return l.Join(ctx, m, ttl)
	}, leave: func(l store.Leaser, id string, nonce uint64) error {
		mu.Lock()
		defer mu.Unlock()
		delete(first, id)
		return l.Leave(ctx, id, nonce)
	}}
	return faults{leaser: func(l store.Leaser) store.Leaser { return &faultyLeaser{l, f} }}
}

// looksThenClaims reads who owns the partition and takes it in a second step; the first two that look do so
// together.
func looksThenClaims(m *memory.Store) faults {
	var looked atomic.Int32
	var both sync.WaitGroup
	both.Add(2)
	return leasing(leases{claim: func(l store.Leaser, _ string, p []int, ttl time.Duration) ([]store.Term, error) {
		if ownerOf(m, p[0]).Node != "" {
			return make([]store.Term, len(p)), nil
		}
		if looked.Add(1) <= 2 {
			both.Done()
			both.Wait()
		}
		return l.Claim(ctx, "all", p, ttl)
	}})(m)
}

func sameTermAgain(m *memory.Store) faults {
	return leasing(leases{claim: func(l store.Leaser, node string, p []int, ttl time.Duration) ([]store.Term, error) {
		if o := ownerOf(m, p[0]); o.Node == node {
			return []store.Term{o.Term}, nil
		}
		return l.Claim(ctx, node, p, ttl)
	}})(m)
}

// oneNonce shows every term with the nonce 1; behind it the right ones are in force.
func oneNonce(m *memory.Store) faults {
	f := leasing(leases{claim: func(l store.Leaser, node string, p []int, ttl time.Duration) ([]store.Term, error) {
		got, err := l.Claim(ctx, node, p, ttl)
		for i := range got {
			got[i].Nonce = 1
		}
		return got, err
	}})(m)
	f.term = func(partition int, t store.Term) store.Term {
		if o := ownerOf(m, partition); o.Term.Epoch == t.Epoch {
			return o.Term
		}
		return t
	}
	return f
}

func releasesAny(m *memory.Store) faults {
	return leasing(leases{release: func(l store.Leaser, _ string, held []store.Holding) error {
		for _, h := range held {
			o := ownerOf(m, h.Partition)
			if err := l.Release(ctx, o.Node, []store.Holding{{Partition: h.Partition, Term: o.Term}}); err != nil {
				return err
			}
		}
		return nil
	}})(m)
}
