package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// before is what the store knew about the owners of partitions when they were claimed.
type before struct {
	owners map[int]store.Owner // nil: unknown
	now    int64               // when the claim was made, UTC ns
	skew   int64               // how far a node's clock may be from the store's, either way
	margin int64               // how long before the end of its lease an owner stops handing out
}

// maxSkew is how far the clock of a cluster's node may be from the store's. A node with a larger difference
// owns nothing.
const maxSkew = time.Second

// ownersBefore reads who owns partitions that are about to be claimed. If a claim then succeeds, no other
// node has renewed that partition's lease in between, unless the read and the claim take as long as a lease
// lasts. In that case known treats the owners as unknown.
func (e *Engine) ownersBefore(ctx context.Context) (map[int]store.Owner, error) {
	list, err := e.store.Leaser().Owners(ctx)
	if err != nil {
		return nil, fmt.Errorf("owners of partitions: %w", err)
	}
	owners := make(map[int]store.Owner, len(list))
	for _, o := range list {
		owners[o.Partition] = o
	}
	return owners, nil
}

// known returns what is known after a claim whose preparation began at since (Engine.elapsed).
func (e *Engine) known(owners map[int]store.Owner, since int64) before {
	b := before{owners: owners, now: e.now(), margin: int64(e.cfg.LeaseTTL - e.validFor())}
	if e.cfg.Peers != nil {
		b.skew = int64(maxSkew)
	}
	if e.elapsed()-since >= int64(e.cfg.LeaseTTL)/2 {
		b.owners = nil
	}
	return b
}

// until returns the latest due time of anything that a term of a partition may have handed out. An owner
// hands out nothing once its lease may have ended. Of a term that was released, or is not the last, it is
// only known that it has ended by now.
func (b *before) until(partition int, term store.Term) int64 {
	now := b.now + 2*b.skew // this node's clock may be as far behind
	if o, known := b.owners[partition]; known && o.Term == term && !o.Until.IsZero() {
		return min(now, o.Until.UnixNano()+max(0, b.skew-b.margin))
	}
	return now
}

// loadTerms reads which terms of the partition may have left attempts in doubt, and adds the new term. That
// record is written before the new term hands anything out.
func (p *partitionRunner) loadTerms(t *claimResult) error {
	small, err := t.shard.MetaRecords(p.ctx, store.MetaQuery{Kind: store.KindTerms, Limit: 1})
	if err != nil {
		return err
	}
	for _, s := range small {
		if t.terms, err = partition.ParseTerms(s.Value); err != nil {
			return err
		}
	}
	t.terms.End(func(term store.Term) int64 {
		if term == p.term {
			return max(t.before.now, p.latest) // this process had the term
		}
		return t.before.until(p.number, term)
	})
	t.terms.Open = []store.Term{t.term}
	return nil
}

// readDoubts reads the records that may hold attempts in doubt, as far as there is memory for them, so that
// requests for such runs find them.
func (p *partitionRunner) readDoubts(t *claimResult, now int64) error {
	for t.m.Unread() {
		q, ok := t.m.WantDue(now)
		if !ok {
			return nil
		}
		records, err := t.shard.Due(p.ctx, q)
		if err != nil {
			return err
		}
		t.m.Loaded(q, records, now)
	}
	return nil
}

// hurry has leases renewed at once.
func (e *Engine) hurry() {
	select {
	case e.renewNow <- struct{}{}:
	default:
	}
}

// leapt reports whether the clock was set forward so far that what is due now was not due when the lease was
// renewed. Then nothing is handed out until the lease is renewed again, because others derive from the lease
// until when something can have been handed out.
func (p *partitionRunner) leapt(now int64) bool {
	if now-p.leasedAt.Load() < int64(p.e.validFor()) {
		return false
	}
	p.e.hurry()
	return true
}
