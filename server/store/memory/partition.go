package memory

import (
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
)

// partition is one partition of a store. A batch is applied, and the term compared, under its lock, which is
// all that atomic and fenced mean here.
type partition struct {
	number int // it never changes: it is read without the lock

	mu     sync.RWMutex
	owner  store.Owner // Node is empty if nobody holds it
	closed bool
	holds  *contents.Partition
}

func newPartition(number int, epoch uint64) *partition {
	return &partition{number: number, owner: store.Owner{Partition: number, Term: store.Term{Epoch: epoch}},
		holds: contents.New(number)}
}

// apply makes the batch visible, or changes nothing.
func (p *partition) apply(term store.Term, b *store.Batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.writable(term); err != nil {
		return err
	}
	p.holds.Change(b, nil)
	return nil
}

// writable is nil if the term may write.
func (p *partition) writable(term store.Term) error {
	switch {
	case p.closed:
		return store.ErrClosed
	case !p.inForce(term):
		return store.ErrFenced
	}
	return nil
}

// inForce reports whether the term may write.
func (p *partition) inForce(term store.Term) bool {
	return !term.IsZero() && term == p.owner.Term && p.owner.Node != ""
}

// claim takes the partition for the node if it is free, expired or the node's own; otherwise the term is
// zero.
func (p *partition) claim(node string, nonce uint64, now time.Time, ttl time.Duration) store.Term {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owner.Node != "" && p.owner.Node != node && now.Before(p.owner.Until) {
		return store.Term{}
	}
	p.owner.Term = store.Term{Epoch: p.owner.Term.Epoch + 1, Nonce: nonce}
	p.owner.Node, p.owner.Until = node, now.Add(ttl)
	return p.owner.Term
}

// renew extends the lease if the node still holds the partition under the term.
func (p *partition) renew(node string, term store.Term, until time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.inForce(term) || p.owner.Node != node {
		return false
	}
	p.owner.Until = until
	return true
}

// release frees the partition if the node still holds it under the term. The term stays, so that the next one
// is greater.
func (p *partition) release(node string, term store.Term) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inForce(term) && p.owner.Node == node {
		p.owner.Node, p.owner.Until = "", time.Time{}
	}
}

// ownership is who holds the partition; ok is false if it was never claimed.
func (p *partition) ownership() (o store.Owner, ok bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.owner, !p.owner.Term.IsZero()
}

// close waits for a batch in flight.
func (p *partition) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}
