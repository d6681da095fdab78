package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// Bounds of a batch, which is one script: while it runs, Redis does nothing else. A batch beyond them is
// refused. A delete of a job counts as one, however many pending runs go with it.
const (
	// MaxBatchItems is how many records, runs and so on a batch may have; about a second of Redis's time.
	MaxBatchItems = 100_000
	// MaxBatchBytes is how long a batch may be.
	MaxBatchBytes = 256 << 20
)

// Apply makes the batch durable, as far as Redis is set up to: whole, or not at all.
func (s *shard) Apply(ctx context.Context, b *store.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	args, err := s.arguments(b)
	if err != nil {
		return err
	}
	s.s.mu.RLock()
	defer s.s.mu.RUnlock()
	if s.s.closed {
		return store.ErrClosed
	}
	err = s.runScript(ctx, args)
	s.s.health.Note(err)
	return err
}

func (s *shard) runScript(ctx context.Context, args []string) error {
	done, err := applyScript.Exec(context.WithoutCancel(ctx), s.s.client, s.keys, args).AsInt64()
	switch {
	case err != nil:
		s.s.wires.heed(err)
		return applyFailure(err)
	case done == 0:
		return store.ErrFenced
	}
	return nil
}

// arguments is a batch as apply.lua takes it.
type arguments struct {
	partition int
	list      []string
	scratch   []byte // empty
	bytes     int
	err       error
}

// arguments writes a batch.
func (s *shard) arguments(b *store.Batch) ([]string, error) {
	items := len(b.Puts) + len(b.Deletes) + len(b.Runs) + len(b.Redrive) + len(b.Trims) + len(b.MetaRecords)
	if items > MaxBatchItems {
		return nil, fmt.Errorf("store: a batch of %d items: at most %d", items, MaxBatchItems)
	}
	if s.term.IsZero() {
		return nil, store.ErrFenced
	}
	a := &arguments{partition: s.number, list: make([]string, 0, 10+4*items)}
	a.add(strconv.FormatUint(s.term.Epoch, 10))
	a.add(strconv.FormatUint(s.term.Nonce, 10))
	a.deletes(b.Deletes)
	a.puts(b.Puts)
	a.history(b)
	a.metaRecords(b.MetaRecords)
	if a.err == nil && a.bytes > MaxBatchBytes {
		a.err = fmt.Errorf("store: a batch of %d bytes: at most %d", a.bytes, MaxBatchBytes)
	}
	return a.list, a.err
}

func (a *arguments) add(s string) {
	a.list = append(a.list, s)
	a.bytes += len(s)
}

// put adds what was appended to scratch.
func (a *arguments) put(b []byte) {
	a.add(string(b))
	a.scratch = b[:0]
}

// try is put, unless that could not be appended.
func (a *arguments) try(b []byte, err error) {
	a.err = errors.Join(a.err, err)
	a.put(b)
}

func (a *arguments) count(n int) { a.add(strconv.Itoa(n)) }

func (a *arguments) deletes(list []store.Ref) {
	a.count(len(list))
	for _, r := range list {
		if r.Seq == 0 {
			a.add("j")
		} else {
			a.add("p")
		}
		a.put(ordered.AppendRef(a.scratch, r))
	}
}

func (a *arguments) puts(list []store.Record) {
	a.count(len(list))
	for i := range list {
		r := &list[i]
		kind := "j"
		switch {
		case r.Seq != 0 && r.Spec != nil:
			kind = "P"
		case r.Seq != 0:
			kind = "p"
		case r.Spec != nil:
			kind = "J"
		}
		a.add(kind)
		a.put(ordered.AppendRef(a.scratch, r.Ref))
		a.try(appendRecord(a.scratch, a.partition, &r.State))
		if r.Spec != nil {
			a.add(string(r.Spec))
		}
	}
}

// history writes what changes of the finished runs.
func (a *arguments) history(b *store.Batch) {
	a.count(len(b.Redrive))
	for i := range b.Redrive {
		a.put(appendRun(a.scratch, &b.Redrive[i].ID))
		a.put(appendJob(a.scratch, b.Redrive[i].Key))
	}
	a.count(len(b.Runs))
	for i := range b.Runs {
		r := &b.Runs[i]
		a.put(appendRun(a.scratch, &r.ID))
		a.try(appendRunRecord(a.scratch, r))
	}
	a.count(len(b.Trims))
	for _, t := range b.Trims {
		a.put(appendJob(a.scratch, t.Key))
		a.count(t.Keep)
	}
	if b.Expire == nil {
		a.count(0)
		return
	}
	a.count(1)
	a.put(ordered.AppendTime(a.scratch, b.Expire.Before))
	a.count(b.Expire.Most)
	a.count(b.Expire.Limit)
}

func (a *arguments) metaRecords(list []store.MetaRecord) {
	a.count(len(list))
	for i := range list {
		kind := "s"
		if list[i].Value == nil {
			kind = "d"
		}
		a.add(kind)
		a.add(metaRecordKey(list[i].Kind, list[i].Key))
		if list[i].Value != nil {
			a.add(string(list[i].Value))
		}
	}
}

// metaRecordKey is the name of a metadata record.
func metaRecordKey(kind byte, key string) string { return string([]byte{kind}) + key }
