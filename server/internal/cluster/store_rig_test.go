package cluster_test

import (
	"context"
	"errors"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// cutOff reports whether the store cannot be reached.
func (n *node) cutOff() bool { return n.isolated.Load() || n.noStore.Load() }

var errCut = errors.New("the store cannot be reached")

// cutStore is a store that a node can be cut off from.
type cutStore struct {
	store.Store
	by *node
}

func (s cutStore) Shard(p int, term store.Term) (store.Shard, error) {
	shard, err := s.Store.Shard(p, term)
	return cutShard{shard, s.by, p}, err
}

func (s cutStore) Leaser() store.Leaser { return cutLeaser{s.Store.Leaser(), s.by} }

type cutShard struct {
	store.Shard
	by *node
	p  int
}

func (s cutShard) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	if s.by.readsFail.Load() {
		return nil, errCut
	}
	if s.by.readsHang.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Shard.Read(ctx, refs)
}

// MetaRecords is the first read of a partition that was claimed.
func (s cutShard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	if s.by.unreadable.Load() == int64(s.p)+1 {
		return nil, store.ErrDamaged
	}
	return s.Shard.MetaRecords(ctx, q)
}

func (s cutShard) Apply(ctx context.Context, b *store.Batch) error {
	if s.by.cutOff() || s.by.writesFail.Load() {
		return errCut
	}
	err := s.Shard.Apply(ctx, b)
	if err == nil && s.by.writesUnknown.Load() {
		return store.ErrUnknown
	}
	return err
}

type cutLeaser struct {
	store.Leaser
	by *node
}

func (l cutLeaser) Now(ctx context.Context) (time.Time, error) {
	if l.by.cutOff() {
		return time.Time{}, errCut
	}
	defer sleep(time.Duration(l.by.clockDelay.Load()))
	return l.Leaser.Now(ctx)
}

func (l cutLeaser) Join(ctx context.Context, m store.Member, ttl time.Duration) error {
	if l.by.cutOff() {
		return errCut
	}
	if l.by.noCondition.Load() {
		m.State, m.Capacity = "", 1
	}
	return l.Leaser.Join(ctx, m, ttl)
}

func (l cutLeaser) Retire(ctx context.Context, m store.Member, ttl time.Duration) error {
	if l.by.cutOff() {
		return errCut
	}
	return l.Leaser.Retire(ctx, m, ttl)
}

func (l cutLeaser) Leave(ctx context.Context, id string, nonce uint64) error {
	if l.by.cutOff() {
		return errCut
	}
	return l.Leaser.Leave(ctx, id, nonce)
}

func (l cutLeaser) Members(ctx context.Context) ([]store.Member, error) {
	l.by.looks.Add(1)
	sleep(time.Duration(l.by.membersDelay.Load()))
	if f := l.by.f.onMembers; f != nil {
		f()
	}
	if l.by.cutOff() {
		return nil, errCut
	}
	return l.Leaser.Members(ctx)
}

func (l cutLeaser) Claim(ctx context.Context, node string, ps []int,
	ttl time.Duration) ([]store.Term, error) {
	if l.by.cutOff() || l.by.claimsFail.Load() {
		return nil, errCut
	}
	return l.Leaser.Claim(ctx, node, ps, ttl)
}

func (l cutLeaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) ([]store.Holding, error) {
	if l.by.cutOff() {
		return nil, errCut
	}
	return l.Leaser.Renew(ctx, node, held, ttl)
}

func (l cutLeaser) Release(ctx context.Context, node string, held []store.Holding) error {
	if l.by.cutOff() {
		return errCut
	}
	return l.Leaser.Release(ctx, node, held)
}

func (l cutLeaser) Owners(ctx context.Context) ([]store.Owner, error) {
	if l.by.cutOff() {
		return nil, errCut
	}
	return l.Leaser.Owners(ctx)
}
