package repartition

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
)

// To makes of what a store holds what one of n partitions is to hold.
func To(n int) transfer.Reshape {
	return func(ctx context.Context, from transfer.Source) (transfer.Reshaped, error) {
		was := from.Head().Partitions
		switch {
		case n < 1 || n > store.MaxPartitions:
			return nil, fmt.Errorf("%d partitions: a store has 1 to %d", n, store.MaxPartitions)
		case n == was:
			return nil, fmt.Errorf("the store has %d partitions already: to move it as it is, give no number", n)
		}
		m := &move{from: from, was: was, n: n}
		if err := m.survey(ctx, time.Now().UnixNano()); err != nil {
			return nil, err
		}
		return m, nil
	}
}

// move is a move to another number of partitions.
type move struct {
	from   transfer.Source
	was, n int
	terms  []termList // by partition of before
	events owed
	seals  seals
	check  check

	out *sink
}

// Head implements [transfer.Reshaped].
func (m *move) Head() transfer.Head {
	h := m.from.Head()
	h.Partitions = m.n
	return h
}

// errBatches: what is stored of a batch is known by its partitions, so it cannot go on among others.
var errBatches = errors.New("are decided and may not be stored in all of their partitions yet: start a node on the store as it is, " +
	"which ends them within seconds, stop it, and run the command again")

// survey reads what must be known before anything is moved.
func (m *move) survey(ctx context.Context, now int64) error {
	m.terms = make([]termList, m.was)
	var mu sync.Mutex
	batches := map[string]bool{}
	kinds := string([]byte{store.KindTerms, store.KindWebhooks, store.KindIntent, store.KindEvents,
		store.KindWatched})
	err := m.from.Kinds(ctx, kinds, func(_ context.Context, p int, b *store.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		for i := range b.MetaRecords {
			r := &b.MetaRecords[i]
			err := partition.CheckMeta(r)
			if err == nil {
				switch r.Kind {
				case store.KindIntent:
					batches[partition.IntentID(r.Key)] = true
				case store.KindTerms:
					err = m.terms[p].read(r.Value, partition.Origin{Partition: uint32(p), Partitions: uint32(m.was)}, now)
				default:
					err = m.events.survey(r, m.from.Head())
				}
			}
			if err != nil {
				return damaged(p, r, err)
			}
		}
		return nil
	})
	if err == nil && len(batches) > 0 {
		err = fmt.Errorf("%d batches of jobs %w", len(batches), errBatches)
	}
	return err
}

// examine says how damage is looked at.
const examine = "examine the store with carillon doctor"

func damaged(p int, r *store.MetaRecord, err error) error {
	return fmt.Errorf("partition %d: the metadata record of kind %q, key %q: %w: %s", p, r.Kind, r.Key, err, examine)
}

// Each implements [transfer.Reshaped].
func (m *move) Each(ctx context.Context, take transfer.Taker) error {
	m.out = newSink(m.n, take)
	if err := m.from.Each(ctx, m.take); err != nil {
		return err
	}
	for _, end := range []func(context.Context) error{m.endTerms, m.endEvents, m.endSeals, m.out.flush} {
		if err := end(ctx); err != nil {
			return err
		}
	}
	return nil
}

// take gives what a partition held its new places.
func (m *move) take(ctx context.Context, p int, b *store.Batch) error {
	if err := m.check.was.add(b); err != nil {
		return err
	}
	for i := range b.Puts {
		if err := m.record(ctx, p, b.Puts[i]); err != nil {
			return err
		}
	}
	for i := range b.Runs {
		r := b.Runs[i]
		if err := placed(p, m.was, r.Key, r.ID.UID); err != nil {
			return err
		}
		r.ID = r.ID.In(m.n)
		if err := m.out.run(ctx, store.PartitionOf(r.Key, m.n), &r); err != nil {
			return err
		}
	}
	for i := range b.MetaRecords {
		if err := m.meta(ctx, p, b.MetaRecords[i]); err != nil {
			return err
		}
	}
	return nil
}

// record moves a job or a pending run.
func (m *move) record(ctx context.Context, p int, r store.Record) error {
	if err := placed(p, m.was, r.Key, r.State.UID); err != nil {
		return err
	}
	q := store.PartitionOf(r.Key, m.n)
	m.terms[p].note(&r.State, q)
	r.State.Waits = waitsIn(r.State.Waits, m.n)
	if err := m.out.put(ctx, q, &r); err != nil {
		return err
	}
	if r.State.Phase != carillon.PhaseStaged {
		return nil
	}
	return m.out.park(ctx, q, r.State.Queue)
}

// placed is an error if a job is not in the partition of its name, or has the uid of another name.
func placed(p, n int, k carillon.Key, u carillon.UID) error {
	if store.PartitionOf(k, n) != p || store.HashOf(u) != store.KeyHash(k) {
		return fmt.Errorf("job %q of namespace %q is in partition %d, where it does not belong, or has the uid %x of another "+
			"name: %s", k.Name, k.Namespace, p, u, examine)
	}
	return nil
}

// waitsIn returns what a job waits for, with the ids of runs in a store of n partitions.
func waitsIn(waits []store.Wait, n int) []store.Wait {
	if len(waits) == 0 {
		return waits
	}
	out := make([]store.Wait, len(waits))
	for i, w := range waits {
		w.By = idIn(w.By, n)
		out[i] = w
	}
	return out
}

// idIn is RunID.In for an id that may be none.
func idIn(id store.RunID, n int) store.RunID {
	if id == (store.RunID{}) {
		return id
	}
	return id.In(n)
}

// errKind: what it is about is not known.
var errKind = errors.New("this version does not know the kind")

// meta moves a metadata record, or notes what it says of its partition.
func (m *move) meta(ctx context.Context, p int, r store.MetaRecord) error {
	switch r.Kind {
	case store.KindAllocation:
		l, ok := permitrecord.ParseLevel(&r)
		if !ok {
			return nil // counted again at the end of each move
		}
		// What is allocated is not moved, and may be used up: nothing is left, so that no more begins than may.
		l.Tokens = 0
		r = l.Record()
		return m.out.meta(ctx, permitrecord.HomeOf(l.Limit, m.n), &r)
	case store.KindApplied, store.KindTerms, store.KindParked, store.KindWatched, store.KindWebhooks:
		return nil // of no use to others, or known
	case store.KindEvents:
		return m.event(ctx, p, &r)
	case store.KindAudit, store.KindAuditChain:
		if err := closeChain(&r); err != nil {
			return damaged(p, &r, err)
		}
		return m.out.meta(ctx, p%m.n, &r) // a chain stays together
	case store.KindSeal:
		m.seals.note(&r)
		return nil
	case store.KindLimited:
		h, ok := permitrecord.ParseHeld(&r)
		if !ok {
			return damaged(p, &r, store.ErrDamaged)
		}
		return m.out.meta(ctx, store.PartitionOf(h.Of.Key, m.n), &r)
	}
	q, err := m.moved(p, &r)
	if err != nil {
		return damaged(p, &r, err)
	}
	return m.out.meta(ctx, q, &r)
}

// moved changes a metadata record that has a place by its name, and returns the new place.
func (m *move) moved(p int, r *store.MetaRecord) (q int, err error) {
	at, err := Place(r, m.was)
	switch {
	case err != nil:
		return 0, err
	case r.Kind == store.KindIntent:
		return 0, fmt.Errorf("its batch %w", errBatches)
	case at == Unknown:
		return 0, errKind
	case at != p:
		return 0, fmt.Errorf("it belongs in partition %d", at)
	}
	if r.Kind == store.KindNotice {
		by, err := store.DecodeRunID(r.Value)
		if err != nil {
			return 0, err
		}
		r.Value = by.In(m.n).AppendBinary(nil)
	}
	return Place(r, m.n)
}

// seals are the marks of the keys of encryption, of all partitions. It is safe for concurrent use.
type seals struct {
	mu  sync.Mutex
	all map[string]store.MetaRecord
}

func (s *seals) note(r *store.MetaRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]store.MetaRecord{}
	}
	s.all[r.Key] = *r
}

// endSeals marks each partition with all keys: what needs one of them may be in any.
func (m *move) endSeals(ctx context.Context) error {
	for q := range m.n {
		for _, r := range m.seals.all {
			if err := m.out.meta(ctx, q, &r); err != nil {
				return err
			}
		}
	}
	return nil
}
