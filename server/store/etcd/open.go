package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
	"github.com/carillonhq/carillon/server/store/inuse"
	"github.com/carillonhq/carillon/server/store/mackey"
)

// Store is a store in etcd.
type Store struct {
	opt        Options
	keys       keys
	wire       *wire
	clock      *clock
	meta       store.Meta
	value      []byte // of the key that says what the store was created with
	replicas   []*replica
	heads      *heads
	commits    *committer
	maintainer *maintainer
	health     store.Health
	calls      inuse.Guard
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Reader   = (*Store)(nil)
	_ store.Gatherer = (*Store)(nil)
	_ store.Counter  = (*Store)(nil)
	_ store.Roomer   = (*Store)(nil)
)

// Open connects to etcd and creates the store if it is not there. An error is [store.ErrAway] if no member
// can be reached, or none leads.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := open(ctx, o)
	if err != nil && away(err) {
		err = store.Away(err)
	}
	return s, err
}

func open(ctx context.Context, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{opt: o, keys: keys{o.Prefix},
		health: store.Health{Failed: o.Events.Failed, Recovered: o.Events.Recovered, Replaced: ErrReplaced}}
	if s.wire, err = dial(&o); err != nil {
		return nil, fmt.Errorf("store: connect to etcd at %v: %w", o.Addresses, err)
	}
	if err := s.create(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("store: etcd at %v: %w", o.Addresses, err), s.wire.client.Close())
	}
	for p := range s.meta.ProvingGround() + 1 {
		s.replicas = append(s.replicas, newReplica(s, p))
	}
	s.calls.Open(len(s.replicas))
	s.clock = newClock(ctx, &s.opt)
	s.heads = newHeads(s)
	if err := s.extend(ctx); err != nil {
		s.heads.at.Close()
		s.clock.close()
		return nil, errors.Join(fmt.Errorf("store: etcd at %v: %w", o.Addresses, err), s.wire.client.Close())
	}
	s.commits = newCommitter(s)
	s.maintainer = newMaintainer(s)
	return s, nil
}

// ErrReplaced says that there is another store, or none, where there was the one that was opened.
var ErrReplaced = errors.New("store: etcd has another store, or none, in the place of the one that was opened: " +
	"start the node again, if that is as it should be")

// create makes the store if it is not there, and reads what it was created with.
func (s *Store) create(ctx context.Context) error {
	if err := s.wire.learn(ctx, s.keys.of("nothing")); err != nil {
		return err
	}
	secret := mackey.New(s.opt.MACKey)
	key, made := s.keys.store(), encode(storeValue{store.Format(), s.opt.Partitions, secret})
	begin := []*pb.RequestOp{put(key, made)}
	if s.opt.Existing {
		begin = nil
	}
	answer, err := s.wire.txn(ctx, &pb.TxnRequest{Compare: []*pb.Compare{unchanged(key, 0)},
		Success: begin, Failure: []*pb.RequestOp{reading(one(key))}})
	switch {
	case err != nil:
		return err
	case answer.Succeeded && s.opt.Existing:
		return store.ErrNoStore
	}
	s.value = made
	if !answer.Succeeded {
		found := answer.Responses[0].GetResponseRange().GetKvs()
		if len(found) != 1 {
			return errors.New("the store has gone while it was opened")
		}
		s.value = found[0].Value
	}
	var v storeValue
	if err := decode(key, s.value, &v); err != nil {
		return err
	}
	if err := store.CheckFormat(v.Format); err != nil && !store.Extends(v.Format) {
		return err
	}
	if err := store.CheckAsIs(v.Format, s.opt.AsIs); err != nil {
		return err
	}
	if v.Partitions < 1 || v.Partitions > store.MaxPartitions || len(v.Key) != len(secret) {
		return fmt.Errorf("%w: the key %q", store.ErrDamaged, key)
	}
	s.meta = store.Meta{Format: v.Format, Partitions: v.Partitions, MACKey: v.Key}
	return s.begin(ctx)
}

// begin has the terms of partitions that were never claimed begin above an epoch, if there is one.
func (s *Store) begin(ctx context.Context) error {
	if s.opt.Epoch == 0 {
		return nil
	}
	for p := range s.meta.ProvingGround() + 1 {
		key := s.keys.owner(p)
		if _, err := s.wire.txn(ctx, &pb.TxnRequest{Compare: []*pb.Compare{unchanged(key, 0)},
			Success: []*pb.RequestOp{put(key, encode(ownerValue{Epoch: s.opt.Epoch}))}}); err != nil {
			return err
		}
	}
	return nil
}

// same compares in a transaction that the store is the one that was opened: another one may have other
// partitions, and has another secret.
func (s *Store) same() *pb.Compare { return has(s.keys.store(), s.value) }

// isSame asks whether the store is the one that was opened.
func (s *Store) isSame(ctx context.Context) error {
	found, err := s.wire.get(ctx, one(s.keys.store()))
	switch {
	case err != nil:
		err = failure(err)
	case len(found.Kvs) != 1 || !bytes.Equal(found.Kvs[0].Value, s.value):
		err = ErrReplaced
	default:
		s.health.Same()
		return nil
	}
	if !errors.Is(err, context.Canceled) {
		s.health.Note(err)
	}
	return err
}

// Shard is a partition as seen by the owner of one term.
func (s *Store) Shard(partition int, term store.Term) (store.Shard, error) {
	if err := s.calls.Check(partition); err != nil {
		return nil, err
	}
	h := &shard{s: s, r: s.replicas[partition], term: term}
	h.Reader = contents.Reader{Current: h.current}
	return h, nil
}

// Leaser says who lives and who owns what.
func (s *Store) Leaser() store.Leaser { return leaser{s} }

// Meta is what the store was created with.
func (s *Store) Meta() store.Meta { return s.meta.Clone() }

// Room implements [store.Roomer].
func (s *Store) Room() error { return s.maintainer.room() }

// Close waits for the batches in flight.
func (s *Store) Close() error {
	return s.calls.Close(func() error {
		s.maintainer.close()
		s.commits.close()
		s.heads.at.Close()
		s.clock.close()
		if err := s.wire.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("store: etcd: close the connection: %w", err)
		}
		return nil
	})
}
