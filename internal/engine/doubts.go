package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// before is what the store says of the owners that partitions had until they are claimed.
type before struct {
	owners map[int]store.Owner // nil: not known
	now    int64               // of the claim, UTC ns
	skew   int64               // by how much a node's clock may be ahead of the store's, or behind
	margin int64               // how long before the end of its lease an owner stops handing out
}

// maxSkew is by how much the clock of a node of a cluster may differ from the store's: with more it owns nothing.
const maxSkew = time.Second

// ownersBefore reads who owns partitions that are about to be claimed. Whatever becomes of the claim, no other node has renewed the
// lease of one that is got meanwhile, unless the two take as long as a lease lasts: then it is as if nothing were known.
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

// known is what is known after a claim that began to be prepared at an instant of Engine.elapsed.
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

// until is when what a term of a partition may have handed out was due at the latest. An owner hands out nothing when its lease may
// have ended. Of a term that was released, or is not the last, nothing is known but that it has ended by now.
func (b *before) until(partition int, term store.Term) int64 {
	now := b.now + 2*b.skew // this node's clock may be as far behind
	if o, known := b.owners[partition]; known && o.Term == term && !o.Until.IsZero() {
		return min(now, o.Until.UnixNano()+max(0, b.skew-b.margin))
	}
	return now
}

// loadTerms reads which terms of the partition may have left attempts in doubt, and adds the new one. It is written before that one
// hands anything out.
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
			return max(t.before.now, p.latest) // it is this process that had it
		}
		return t.before.until(p.number, term)
	})
	t.terms.Open = []store.Term{t.term}
	return nil
}

// readDoubts reads the records of which something may be in doubt, as far as memory has room, so that whoever asks for such a run
// finds it.
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

// leapt reports whether the clock has been set forward by so much that what is due now was not when the lease was renewed. Nothing is
// handed out then before it has been again: from the lease others tell up to when something can have been.
func (p *partitionRunner) leapt(now int64) bool {
	if now-p.leasedAt.Load() < int64(p.e.validFor()) {
		return false
	}
	p.e.hurry()
	return true
}
