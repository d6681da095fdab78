package cassandra

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
)

// settingsKinds are the metadata records that nodes read of partitions that they do not own. They are in a
// column of the last segment as well, so that nobody reads a log for them.
var settingsKinds = []byte{store.KindNamespace, store.KindCalendar}

func isSettings(kind byte) bool { return slices.Contains(settingsKinds, kind) }

// built is a batch as rows.
type built struct {
	rows  []row
	size  size
	grown size // by how much what the partition holds has grown
}

func (o *built) add(w *row) {
	o.rows, o.size = append(o.rows, *w), o.size.plus(w.size())
}

func (o *built) grow(by size, sign int) {
	o.grown = o.grown.plus(size{sign * by.rows, sign * by.bytes})
}

const (
	// mostRow is the largest row: Cassandra takes 16 MiB in a request, and in a change.
	mostRow = 8 << 20
	// How much is written at once. A larger batch is written in parts.
	mostRows  = 2000
	mostBytes = 2 << 20
)

// build makes the rows of a batch: what it has touched as it is after the batch, or that it is gone.
func build(b *store.Batch, t *contents.Touched, was, is *contents.Partition) (*built, error) {
	o := &built{rows: make([]row, 0, len(t.Records)+len(t.Runs)+len(b.MetaRecords))}
	withSpec := make(map[store.Ref]bool, len(b.Puts))
	for i := range b.Puts {
		withSpec[b.Puts[i].Ref] = b.Puts[i].Spec != nil
	}
	for ref := range t.Records {
		before, after := was.Record(ref), is.Record(ref)
		if before != nil {
			o.grow(weighRecord(before), -1)
		}
		switch {
		case after != nil:
			o.grow(weighRecord(after), 1)
			w := recordRow(after, withSpec[ref])
			o.add(&w)
		case before != nil:
			w := refRow(ref)
			w.gone = true
			o.add(&w)
		}
	}
	for id, key := range t.Runs {
		before, after := was.Run(id), is.Run(id)
		if before != nil {
			o.grow(weighRun(before), -1)
		}
		switch {
		case after != nil:
			o.grow(weighRun(after), 1)
			w := runRow(after)
			o.add(&w)
		case before != nil:
			w := goneRunRow(id, key)
			o.add(&w)
		}
	}
	for i := range b.MetaRecords {
		m := &b.MetaRecords[i]
		if before := was.MetaRecord(m.Kind, m.Key); before != nil {
			o.grow(size{1, rowOverhead + len(before.Value)}, -1)
		}
		if m.Value != nil {
			o.grow(size{1, rowOverhead + len(m.Value)}, 1)
		}
		w := metaRow(m)
		o.add(&w)
	}
	for i := range o.rows {
		if n := o.rows[i].size().bytes; n > mostRow {
			return nil, fmt.Errorf("store: cassandra takes no record of %d bytes (job %q of namespace %q): at most %d",
				n, o.rows[i].name, o.rows[i].namespace, mostRow)
		}
	}
	return o, nil
}

// parts cuts the rows into what is written at once.
func (o *built) parts() (parts [][]row) {
	from, bytes := 0, 0
	for i := range o.rows {
		n := o.rows[i].size().bytes
		if i > from && (i-from >= mostRows || bytes+n > mostBytes) {
			parts = append(parts, o.rows[from:i])
			from, bytes = i, 0
		}
		bytes += n
	}
	return append(parts, o.rows[from:])
}

// add appends a batch to the log and makes the result the known version; is holds the partition's contents
// after the batch. The caller holds the lock. from is under the term that is compared.
//
// A batch that is too large for one request is written in parts, each on condition of the term. The last part
// also writes the first row and the number. Readers ignore rows of a number that has no first row.
func (r *replica) add(ctx context.Context, from *version, is *contents.Partition, o *built) (err error) {
	if from.tail().size.over(r.s.opt.limits.segment) {
		if from, err = r.roll(ctx, from); err != nil {
			r.failed(0, err)
			return err
		}
	}
	r.s.slots <- struct{}{}
	defer func() { <-r.s.slots }()
	header := o.after(from)
	if err := r.send(ctx, from, header, o); err != nil {
		r.failed(header.number, err)
		return err
	}
	next := from.grown(o.size.plus(size{1, rowOverhead}))
	next.holds, next.last, next.id, next.used = is, header.number, header.seq, header.number
	next.live = unweighed
	if from.live != unweighed {
		next.live = from.live.plus(o.grown)
	}
	r.is.Store(next)
	return nil
}

// after gives the rows the next number after a version, and returns the first row of the batch.
func (o *built) after(v *version) *row {
	header := &row{number: v.used + 1, kind: kindBatch, seq: 1 + rand.Int64N(math.MaxInt64-1), before: v.last,
		items: len(o.rows), term: v.term}
	for i := range o.rows {
		o.rows[i].number, o.rows[i].item = header.number, i+1
	}
	return header
}

// send writes a batch, in parts if it is large.
func (r *replica) send(ctx context.Context, from *version, header *row, o *built) error {
	parts, segment := o.parts(), from.tail().number
	for _, part := range parts[:len(parts)-1] {
		done, err := r.s.wire.cas(ctx, r.inserts(segment, r.guard(from, from.last), part)...)
		switch {
		case err != nil: // without the first row it counts for nothing
			return failure(fmt.Errorf("write a part of a batch: %w", err))
		case !done:
			return store.ErrFenced
		}
	}
	final := append([]row{*header}, parts[len(parts)-1]...)
	statements := append(r.inserts(segment, r.guard(from, header.number), final), r.set(segment, o.rows)...)
	done, err := r.s.wire.cas(ctx, statements...)
	return r.verdict(ctx, segment, header, done, err)
}

// inserts are the statements that write rows if a guard holds.
func (r *replica) inserts(segment int, guard statement, rows []row) []statement {
	out := make([]statement, 0, len(rows)+1)
	out = append(out, guard)
	for i := range rows {
		out = append(out, rows[i].insert(r.number, segment))
	}
	return out
}

// set is what a batch changes in the settings of a segment.
func (r *replica) set(segment int, rows []row) (out []statement) {
	for i := range rows {
		w := &rows[i]
		switch {
		case w.kind != kindMeta || !isSettings(w.key[0]):
		case w.gone:
			out = append(out, statement{`DELETE settings[?] FROM $changes WHERE partition = ? AND segment = ?`,
				[]any{[]byte(w.key), r.number, segment}})
		default:
			out = append(out, statement{`UPDATE $changes SET settings[?] = ? WHERE partition = ? AND segment = ?`,
				[]any{[]byte(w.key), []byte(w.value), r.number, segment}})
		}
	}
	return out
}

// verdict says how a batch ended whose last part was answered by done or an error. Where that does not tell,
// the log is asked by a serial read, which ends what was begun: if the batch is there, it was applied. If it
// is not, it still may come, as long as the term is in force.
func (r *replica) verdict(ctx context.Context, segment int, header *row, done bool, err error) error {
	if done && err == nil {
		return nil
	}
	if err != nil && notBegun(err) {
		return failure(err)
	}
	var id int64 // of the batch that has the number
	read := r.s.wire.each(ctx, r.s.wire.levels.serial,
		statement{`SELECT seq FROM $changes WHERE partition = ? AND segment = ? AND number = ? AND item = 0`,
			[]any{r.number, segment, header.number}}, nil,
		func(scan func(...any) error) error { return scan(&id) })
	switch {
	case read == nil && id == header.seq:
		return nil
	case read == nil && err == nil:
		return store.ErrFenced
	}
	return unknown(errors.Join(err, read))
}

// failed notes that a batch of a number was not applied, or that its outcome is unknown; 0: it had none yet.
// Its number is not used again: rows of it may be there. If it was fenced, or its outcome is unknown, the
// term is cleared, so the next batch first reads the log to its end and learns which term is in force.
func (r *replica) failed(number int64, err error) {
	v := r.is.Load()
	if v == nil {
		return
	}
	with := *v
	with.used = max(with.used, number)
	if store.OutcomeOf(err) != store.NotApplied {
		with.term = store.Term{}
	}
	r.is.CompareAndSwap(v, &with)
}
