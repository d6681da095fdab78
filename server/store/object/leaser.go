package object

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// leaser keeps members and owners in the root, by the store's clock. Requests cost money, so it does without
// some:
//
//   - What it says of members and owners may be a second old.
//   - A heartbeat, which writes the root anyway, extends the leases of the node as well, and a renewal that
//     finds its leases extended writes nothing.
//   - It tells the time without asking, if there was an answer not long ago: each of them has the date.
type leaser struct{ *Store }

// LeaseTTL is how long leases last by default: a heartbeat is a request, and there are four in that time.
const LeaseTTL = 2 * time.Minute

// staleness is how old what is said of members and owners may be.
const staleness = time.Second

// clockAge is how long ago the last answer may be whose date the clock relies on.
const clockAge = time.Minute

var _ store.Leaser = leaser{}

// change is a change of the root within a call.
func (l leaser) change(ctx context.Context, partitions []int, decide decision, taken func()) error {
	done, err := l.calls.Begin(ctx, partitions...)
	if err != nil {
		return err
	}
	defer done()
	_, err = l.roots.change(ctx, decide, taken)
	return err
}

func (l leaser) read(ctx context.Context) (*root, error) {
	done, err := l.calls.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if r := l.roots.since(staleness); r != nil {
		return r, nil
	}
	return l.roots.read(ctx)
}

// Now is the store's clock.
func (l leaser) Now(ctx context.Context) (time.Time, error) {
	done, err := l.calls.Begin(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer done()
	// A node asks to find out how far its clock is off. Without the bucket it is to find out nothing.
	if l.roots.since(clockAge) == nil {
		if _, err := l.roots.read(ctx); err != nil {
			return time.Time{}, err
		}
	}
	return l.clock.Time(), nil
}

// Join keeps the member, unless another with its id lives.
func (l leaser) Join(ctx context.Context, m store.Member, ttl time.Duration) error {
	return l.put(ctx, m, ttl, false)
}

// Retire keeps a member that is to own nothing, if another living member has a capacity above 0.
func (l leaser) Retire(ctx context.Context, m store.Member, ttl time.Duration) error {
	return l.put(ctx, m, ttl, true)
}

func (l leaser) put(ctx context.Context, m store.Member, ttl time.Duration, retires bool) error {
	return l.change(ctx, nil, func(_ context.Context, r *root) (bool, error) {
		now, stays := l.clock.Time(), false
		if old, ok := r.Members[m.ID]; ok && old.Nonce != m.Nonce && old.lasts(now) {
			return false, store.ErrTaken
		}
		for id, other := range r.Members {
			stays = stays || id != m.ID && other.Capacity > 0 && other.lasts(now)
		}
		if retires && !stays {
			return false, store.ErrLast
		}
		maps.DeleteFunc(r.Members, func(_ string, m member) bool { return now.Sub(m.Until) > forgotten })
		r.Members[m.ID] = memberOf(m, lasting(now, ttl))
		l.extend(r, m.ID, now)
		return true, nil
	}, nil)
}

// extend extends the leases of a node that this process has claimed or renewed lately, to beyond what they
// were given for: a renewal that comes before the next heartbeat finds them long enough. Those that the node
// renews no more end, although it lives.
func (l leaser) extend(r *root, node string, now time.Time) {
	for i := range r.Partitions {
		p := &r.Partitions[i]
		h := l.replicas[i].hold.Load()
		if h == nil || l.elapsed() >= h.until.Load() || p.Node != node || !p.inForce(h.term) || !p.lasts(now) {
			continue
		}
		if until := now.Add(p.Given + p.Given/3); until.After(p.Until) {
			p.Until = until.UTC()
		}
		l.replicas[i].trim(p)
	}
}

// forgotten is how long after its end a member's heartbeat is kept, for who looks at the root.
const forgotten = time.Hour

// Leave removes the member of that nonce; 0 is any.
func (l leaser) Leave(ctx context.Context, id string, nonce uint64) error {
	return l.change(ctx, nil, func(_ context.Context, r *root) (bool, error) {
		m, ok := r.Members[id]
		if !ok || nonce != 0 && m.Nonce != nonce {
			return false, nil
		}
		delete(r.Members, id)
		return true, nil
	}, nil)
}

// Members returns those that live, by id.
func (l leaser) Members(ctx context.Context) ([]store.Member, error) {
	r, err := l.read(ctx)
	if err != nil {
		return nil, err
	}
	var out []store.Member
	now := l.clock.Time()
	for _, id := range slices.Sorted(maps.Keys(r.Members)) {
		if m := r.Members[id]; m.lasts(now) {
			out = append(out, m.named(id))
		}
	}
	return out, nil
}

// relied is how long a process relies on a lease, counted from before it asked for it: clocks run at
// different speeds.
func relied(ttl time.Duration) int64 { return int64(ttl - ttl/10) }

// Claim takes each partition that is free, expired or the node's own.
func (l leaser) Claim(ctx context.Context, node string, partitions []int,
	ttl time.Duration) ([]store.Term, error) {
	done, err := l.calls.Begin(ctx, partitions...)
	if err != nil {
		return nil, err
	}
	defer done()
	all := make([]*replica, len(partitions))
	for i, p := range partitions {
		all[i] = l.replicas[p]
	}
	// While a batch of this process is on its way the term does not change.
	locked, err := lockReplicas(ctx, all)
	if err != nil {
		return nil, err
	}
	defer unlockAll(locked)
	terms, until := make([]store.Term, len(partitions)), l.elapsed()+relied(ttl)
	var j *journal
	_, err = l.roots.change(ctx, func(ctx context.Context, r *root) (changed bool, err error) {
		j = l.journals.live()
		now := l.clock.Time()
		for i, number := range partitions {
			p := &r.Partitions[number]
			terms[i] = store.Term{}
			if !p.Released && p.Node != "" && p.Node != node && p.lasts(now) {
				continue
			}
			// Also of a bucket that was restored an epoch is greater than those that were lost.
			terms[i] = store.Term{Epoch: max(p.Epoch+1, uint64(now.Unix())), Nonce: rand.Uint64()}
			if _, err := l.moveTo(ctx, r, number, j, terms[i].Epoch); err != nil {
				return false, err
			}
			p.Epoch, p.Nonce, p.Node, p.Released = terms[i].Epoch, terms[i].Nonce, node, false
			p.lease, changed = lasting(now, ttl), true
		}
		return changed, nil
	}, func() {
		for i, r := range all {
			if !terms[i].IsZero() {
				h := &hold{term: terms[i], in: j}
				h.until.Store(until)
				r.hold.Store(h)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return terms, nil
}

// still calls f with each of the partitions that a node still holds, and returns those that it does not.
func (l leaser) still(ctx context.Context, r *root, node string, held []store.Holding,
	f func(p *partition, number int) error) (lost []store.Holding, err error) {
	for _, h := range held {
		p := &r.Partitions[h.Partition]
		if node == "" || p.Node != node || !p.inForce(h.Term) {
			lost = append(lost, h)
			continue
		}
		if err := f(p, h.Partition); err != nil {
			return nil, err
		}
	}
	return lost, ctx.Err()
}

// Renew extends the leases and returns those that are lost.
func (l leaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) (lost []store.Holding, err error) {
	until := l.elapsed() + relied(ttl)
	if known := l.roots.since(ttl / 2); known != nil && l.extended(known, node, held, ttl) {
		l.rely(held, until)
		return nil, nil
	}
	var gone []store.Holding // the round's, which may come when the caller has gone
	err = l.change(ctx, numbers(held), func(ctx context.Context, r *root) (bool, error) {
		now := l.clock.Time()
		var err error
		gone, err = l.still(ctx, r, node, held, func(p *partition, number int) error {
			p.lease = lasting(now, ttl)
			l.replicas[number].trim(p)
			return nil
		})
		return len(gone) < len(held), err
	}, func() { l.rely(held, until) })
	if err != nil {
		return nil, err
	}
	return gone, nil
}

// extended reports whether all leases are those of the node and last for a TTL.
func (l leaser) extended(r *root, node string, held []store.Holding, ttl time.Duration) bool {
	end := l.clock.Time().Add(ttl)
	return !slices.ContainsFunc(held, func(h store.Holding) bool {
		if h.Partition < 0 || h.Partition >= len(r.Partitions) {
			return true
		}
		p := &r.Partitions[h.Partition]
		right := l.replicas[h.Partition].hold.Load()
		return node == "" || p.Node != node || !p.inForce(h.Term) || p.Until.Before(end) || right == nil ||
			right.term != h.Term
	})
}

// rely notes until when nobody else can claim what is held.
func (l leaser) rely(held []store.Holding, until int64) {
	for _, h := range held {
		if right := l.replicas[h.Partition].hold.Load(); right != nil && right.term == h.Term {
			right.until.Store(until)
		}
	}
}

// Release frees the partitions that are still held.
func (l leaser) Release(ctx context.Context, node string, held []store.Holding) error {
	done, err := l.calls.Begin(ctx, numbers(held)...)
	if err != nil {
		return err
	}
	defer done()
	all := make([]*replica, len(held))
	for i, h := range held {
		all[i] = l.replicas[h.Partition]
	}
	locked, err := lockReplicas(ctx, all)
	if err != nil {
		return err
	}
	defer unlockAll(locked)
	l.rely(held, 0) // also if the answer is lost
	for _, h := range held {
		if is := l.replicas[h.Partition].hold.Load(); is != nil && is.term == h.Term {
			l.replicas[h.Partition].hold.CompareAndSwap(is, nil) // whoever writes asks again
		}
	}
	// The replicas stay locked until it is known, or as long as an answer may take: what is decided meanwhile
	// must not come between two writes.
	ctx = context.WithoutCancel(ctx)
	_, err = l.roots.change(ctx, func(ctx context.Context, r *root) (bool, error) {
		lost, err := l.still(ctx, r, node, held, func(p *partition, number int) error {
			if log := p.open(); log != "" {
				if j := l.journals.of(log); j != nil && !j.sealed.Load() {
					p.close(j.settled.Load())
				} else if err := l.logs.seal(ctx, r, log, ""); err != nil {
					return err
				}
			}
			p = &r.Partitions[number]
			p.Node, p.Released, p.lease = "", true, lease{}
			return nil
		})
		return len(lost) < len(held), err
	}, nil)
	return err
}

// Owners returns every partition that was ever claimed, by number.
func (l leaser) Owners(ctx context.Context) ([]store.Owner, error) {
	r, err := l.read(ctx)
	if err != nil {
		return nil, err
	}
	var out []store.Owner
	for number := range l.meta.Partitions {
		p := &r.Partitions[number]
		if p.Epoch == 0 {
			continue
		}
		out = append(out, store.Owner{Partition: number, Term: p.term(), Node: p.Node, Until: p.Until})
	}
	return out, nil
}

func numbers(held []store.Holding) []int {
	out := make([]int, len(held))
	for i, h := range held {
		out[i] = h.Partition
	}
	return out
}
