package transfer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

const (
	// leaseTTL is how long a store stays frozen when the process is killed.
	leaseTTL = 20 * time.Second
	// renewals are so many in a lease.
	renewals = 4
	// mostInMemory is how many jobs and runs are in memory of a store that has its partitions there.
	mostInMemory = 50_000
)

// frozen is a store that nobody else writes to.
type frozen struct {
	store  store.Store
	node   string // the owner of its partitions: another one each time, also in the same process
	shards []store.Shard
	held   []store.Holding
	epoch  uint64 // no record is of a term with a greater one

	lost func() // ends the context of those who read and write
	end  context.CancelFunc
	done chan struct{}
}

// freeze claims all partitions of a store. The context that it returns ends when they are lost.
func freeze(ctx context.Context, s store.Store) (*frozen, context.Context, error) {
	if err := nobody(ctx, s.Leaser()); err != nil {
		return nil, nil, err
	}
	if sparer, ok := s.(store.Sparer); ok {
		sparer.Spare(mostInMemory)
	}
	f := &frozen{store: s, node: "carillon-transfer-" + rand.Text(), done: make(chan struct{})}
	work, lost := context.WithCancelCause(ctx)
	f.lost = func() { lost(errTaken) }
	var err error
	if f.epoch, err = LastEpoch(ctx, s); err == nil {
		err = f.claim(ctx)
	}
	if err != nil {
		f.lost()
		return nil, nil, errors.Join(err, f.release(ctx))
	}
	renewing, end := context.WithCancel(context.WithoutCancel(ctx))
	f.end = end
	go f.renew(renewing)
	return f, work, nil
}

var errTaken = errors.New("another process has taken partitions of the store")

// nobody is an error if a node lives.
func nobody(ctx context.Context, l store.Leaser) error {
	members, err := l.Members(ctx)
	if err != nil {
		return fmt.Errorf("the nodes of the store: %w", err)
	}
	if len(members) == 0 {
		return nil
	}
	var names []string
	for _, m := range members {
		names = append(names, m.ID)
	}
	return fmt.Errorf("nodes live on the store, which must be stopped: %s", strings.Join(names, ", "))
}

// claim takes all partitions.
func (f *frozen) claim(ctx context.Context) error {
	all := make([]int, f.store.Meta().Partitions)
	for p := range all {
		all[p] = p
	}
	terms, err := f.store.Leaser().Claim(ctx, f.node, all, leaseTTL)
	if err != nil {
		return fmt.Errorf("claim partitions: %w", err)
	}
	var taken error
	for p, term := range terms {
		if term.IsZero() {
			taken = fmt.Errorf("partition %d is held by another process, which must be stopped; if it was killed, its lease ends soon", p)
			continue
		}
		f.held = append(f.held, store.Holding{Partition: p, Term: term})
		sh, err := f.store.Shard(p, term)
		if err != nil {
			return err
		}
		f.shards = append(f.shards, sh)
	}
	return taken
}

// LastEpoch is the greatest epoch of any term of a store.
func LastEpoch(ctx context.Context, s store.Store) (most uint64, err error) {
	owners, err := s.Leaser().Owners(ctx)
	if err != nil {
		return 0, fmt.Errorf("the owners of partitions: %w", err)
	}
	for _, o := range owners {
		most = max(most, o.Term.Epoch)
	}
	return most, nil
}

// used is an error if no node has ever owned a partition of the store.
func used(ctx context.Context, s store.Store) error {
	owners, err := s.Leaser().Owners(ctx)
	if err != nil {
		return fmt.Errorf("the owners of partitions: %w", err)
	}
	// One without a nonce is what a store begins with.
	if !slices.ContainsFunc(owners, func(o store.Owner) bool { return o.Term.Nonce != 0 }) {
		return errors.New("no node has ever used the store: is this the right place?")
	}
	return nil
}

// hold makes sure that the store is frozen still, and has been all the time.
func (f *frozen) hold(ctx context.Context) error {
	lost, err := f.store.Leaser().Renew(ctx, f.node, f.held, leaseTTL)
	switch {
	case err != nil:
		return fmt.Errorf("renew the leases of partitions: %w", err)
	case len(lost) > 0:
		return errTaken
	}
	return nobody(ctx, f.store.Leaser())
}

// renew extends the leases until the store is thawed.
func (f *frozen) renew(ctx context.Context) {
	defer close(f.done)
	tick := time.NewTicker(leaseTTL / renewals)
	defer tick.Stop()
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := time.Now()
		lost, err := f.store.Leaser().Renew(ctx, f.node, f.held, leaseTTL)
		switch {
		case len(lost) > 0, err != nil && time.Since(began) > leaseTTL:
			f.lost()
			return
		case err == nil:
			began = asked
		}
	}
}

// thaw releases the partitions.
func (f *frozen) thaw(ctx context.Context) error {
	f.end()
	<-f.done
	f.lost()
	return f.release(ctx)
}

func (f *frozen) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTTL)
	defer cancel()
	if err := f.store.Leaser().Release(ctx, f.node, f.held); err != nil {
		return fmt.Errorf("release partitions: %w", err)
	}
	return nil
}
