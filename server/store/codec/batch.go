package codec

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// A batch is written as lists, each of them the number of its items and then these:
//
//	puts        ref, state, 0 | 1 and spec
//	deletes     ref
//	runs        run
//	redrives    ref of the job, id
//	trims       ref of the job, how many are kept
//	expiries    before, most, limit; at most one
//	metadata    kind, key, 0 | 1 and value
//
// Numbers are unsigned varints; texts, and what package codec writes, have their length before them.

// Writer appends to bytes.
type Writer struct{ B []byte }

// Number appends an unsigned varint.
func (w *Writer) Number(n uint64) { w.B = binary.AppendUvarint(w.B, n) }

// Text appends a length and a text.
func (w *Writer) Text(s string) { w.Number(uint64(len(s))); w.B = append(w.B, s...) }

// Bytes appends a length and bytes.
func (w *Writer) Bytes(b []byte) { w.Number(uint64(len(b))); w.B = append(w.B, b...) }

func (w *Writer) ref(r store.Ref)    { w.key(r.Key); w.Number(r.Seq) }
func (w *Writer) key(k carillon.Key) { w.Text(k.Namespace); w.Text(k.Name) }

// optional writes bytes that may be nil, which is not the same as empty.
func (w *Writer) optional(b []byte) {
	if b == nil {
		w.Number(0)
		return
	}
	w.Number(1)
	w.Bytes(b)
}

// coded writes what f appends.
func (w *Writer) coded(scratch []byte, f func(b []byte) []byte) []byte {
	scratch = f(scratch[:0])
	w.Bytes(scratch)
	return scratch
}

// AppendBatch appends a batch to b.
func AppendBatch(b []byte, of *store.Batch) []byte {
	w, scratch := Writer{b}, []byte(nil)
	w.Number(uint64(len(of.Puts)))
	for i := range of.Puts {
		r := &of.Puts[i]
		w.ref(r.Ref)
		scratch = w.coded(scratch, func(b []byte) []byte { return AppendState(b, &r.State) })
		w.optional(r.Spec)
	}
	w.Number(uint64(len(of.Deletes)))
	for _, ref := range of.Deletes {
		w.ref(ref)
	}
	w.Number(uint64(len(of.Runs)))
	for i := range of.Runs {
		scratch = w.coded(scratch, func(b []byte) []byte { return AppendRun(b, &of.Runs[i]) })
	}
	w.Number(uint64(len(of.Redrive)))
	for _, r := range of.Redrive {
		w.key(r.Key)
		w.Text(r.ID.String())
	}
	w.Number(uint64(len(of.Trims)))
	for _, t := range of.Trims {
		w.key(t.Key)
		w.Number(uint64(t.Keep))
	}
	if e := of.Expire; e == nil {
		w.Number(0)
	} else {
		w.Number(1)
		w.Number(uint64(e.Before))
		w.Number(uint64(e.Most))
		w.Number(uint64(e.Limit))
	}
	w.Number(uint64(len(of.MetaRecords)))
	for _, m := range of.MetaRecords {
		w.Number(uint64(m.Kind))
		w.Text(m.Key)
		w.optional(m.Value)
	}
	return w.B
}

// errEnds: bytes end too early, or say that they are longer than they are.
var errEnds = errors.New("it ends too early")

// Reader takes from bytes what a [Writer] has appended. The first thing that is wrong stays in Err.
type Reader struct {
	B   []byte
	Err error
}

func (r *Reader) fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
	r.B = nil
}

// Number takes an unsigned varint.
func (r *Reader) Number() uint64 {
	n, size := binary.Uvarint(r.B)
	if size <= 0 {
		r.fail(errEnds)
		return 0
	}
	r.B = r.B[size:]
	return n
}

// Count takes the length of a list whose items take at least a byte each.
func (r *Reader) Count() int {
	n := r.Number()
	if n > uint64(len(r.B)) {
		r.fail(errEnds)
		return 0
	}
	return int(n)
}

// Bytes takes a length and bytes, which alias what is read.
func (r *Reader) Bytes() []byte {
	n := r.Count()
	out := r.B[:n:n]
	r.B = r.B[n:]
	return out
}

// Text takes a text.
func (r *Reader) Text() string { return string(r.Bytes()) }

func (r *Reader) optional() []byte {
	if r.Number() == 0 {
		return nil
	}
	return r.Bytes()
}

func (r *Reader) key() carillon.Key { return carillon.Key{Namespace: r.Text(), Name: r.Text()} }
func (r *Reader) ref() store.Ref    { return store.Ref{Key: r.key(), Seq: r.Number()} }

// DecodeBatch reads what AppendBatch wrote. What it returns may alias b.
func DecodeBatch(b []byte) (*store.Batch, error) {
	r, out := Reader{B: b}, &store.Batch{}
	for n := r.Count(); n > 0 && r.Err == nil; n-- {
		rec := store.Record{Ref: r.ref()}
		state, err := DecodeState(r.Bytes())
		if err != nil {
			r.fail(err)
		}
		rec.State, rec.Spec = state, r.optional()
		out.Puts = append(out.Puts, rec)
	}
	for n := r.Count(); n > 0 && r.Err == nil; n-- {
		out.Deletes = append(out.Deletes, r.ref())
	}
	for n := r.Count(); n > 0 && r.Err == nil; n-- {
		run, err := DecodeRun(r.Bytes())
		if err != nil {
			r.fail(err)
		}
		out.Runs = append(out.Runs, run)
	}
	for n := r.Count(); n > 0 && r.Err == nil; n-- {
		key := r.key()
		id, err := store.ParseRunID(r.Text())
		if err != nil {
			r.fail(err)
		}
		out.Redrive = append(out.Redrive, store.RunRef{Key: key, ID: id})
	}
	for n := r.Count(); n > 0 && r.Err == nil; n-- {
		out.Trims = append(out.Trims, store.Trim{Key: r.key(), Keep: int(r.Number())})
	}
	if r.Number() != 0 {
		out.Expire = &store.Expire{Before: int64(r.Number()), Most: int(r.Number()), Limit: int(r.Number())}
	}
	for n := r.Count(); n > 0 && r.Err == nil; n-- {
		m := store.MetaRecord{Kind: byte(r.Number()), Key: r.Text(), Value: r.optional()}
		out.MetaRecords = append(out.MetaRecords, m)
	}
	if r.Err == nil && len(r.B) > 0 {
		r.fail(errors.New("there is more than one batch"))
	}
	if r.Err != nil {
		return nil, fmt.Errorf("%w: a batch: %w", store.ErrDamaged, r.Err)
	}
	return out, nil
}
