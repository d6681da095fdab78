package repartition

import (
	"errors"
	"fmt"
	"sync"

	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
)

// check compares what there was with what the new store holds.
type check struct{ was, is sum }

// sum sums up what is the same under any number of partitions. It is safe for concurrent use.
type sum struct {
	mu     sync.Mutex
	counts transfer.Counts
	digest transfer.Digest
}

// add adds a batch, of whichever partition, without the partitions that ids of runs name.
func (s *sum) add(b *store.Batch) error {
	var same store.Batch
	for _, r := range b.Puts {
		r.State.Waits = waitsIn(r.State.Waits, 1)
		same.Puts = append(same.Puts, r)
	}
	for _, r := range b.Runs {
		r.ID = r.ID.In(1)
		same.Runs = append(same.Runs, r)
	}
	for _, r := range b.MetaRecords {
		switch r.Kind {
		case store.KindNotice:
			by, err := store.DecodeRunID(r.Value)
			if err != nil {
				return fmt.Errorf("the notice %q: %w", r.Key, err)
			}
			r.Value = by.In(1).AppendBinary(nil)
		case store.KindAuditChain:
			if err := closeChain(&r); err != nil {
				return fmt.Errorf("the audit chain %q: %w", r.Key, err)
			}
		case store.KindAudit,
			store.KindNamespace, store.KindCalendar, store.KindDependency, store.KindBackfill, store.KindQueue,
			store.KindTold, store.KindLimited, store.KindKey:
		default:
			continue
		}
		same.MetaRecords = append(same.MetaRecords, r)
	}
	d, err := transfer.DigestOf(0, &same)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.digest.Add(d)
	s.counts.Records += int64(len(same.Puts))
	s.counts.Runs += int64(len(same.Runs))
	s.counts.Meta += int64(len(same.MetaRecords))
	return nil
}

// errPlace: a mistake of this package.
var errPlace = errors.New("it is not where it belongs, or has the id of another place")

// Back implements [transfer.Reshaped].
func (m *move) Back(q int, b *store.Batch) error {
	for i := range b.Puts {
		r := &b.Puts[i]
		ok := store.PartitionOf(r.Key, m.n) == q
		for _, w := range r.State.Waits {
			ok = ok && w.By == idIn(w.By, m.n)
		}
		if !ok {
			return fmt.Errorf("partition %d: the job %q of namespace %q: %w", q, r.Name, r.Namespace, errPlace)
		}
	}
	for i := range b.Runs {
		if r := &b.Runs[i]; store.PartitionOf(r.Key, m.n) != q || int(r.ID.Partition) != q {
			return fmt.Errorf("partition %d: the run %s: %w", q, r.ID, errPlace)
		}
	}
	for i := range b.MetaRecords {
		r := &b.MetaRecords[i]
		at, err := Place(r, m.n)
		if h, ok := permitrecord.ParseHeld(r); r.Kind == store.KindLimited && ok {
			at = store.PartitionOf(h.Of.Key, m.n)
		}
		if err == nil && at != q && at != Anywhere {
			err = errPlace
		}
		if err != nil {
			return damaged(q, r, err)
		}
	}
	return m.check.is.add(b)
}

// Whole implements [transfer.Reshaped].
func (m *move) Whole() error {
	was, is := &m.check.was, &m.check.is
	if was.counts != is.counts || was.digest != is.digest {
		return fmt.Errorf("it is %+v with the digest %s, and there was %+v with %s", is.counts, is.digest, was.counts,
			was.digest)
	}
	return nil
}
