package cassandra

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// Kinds of rows.
const (
	kindBatch   = "batch"   // the first row of a batch, written with its last ones: without it there is no batch
	kindJob     = "job"     // a job
	kindPending = "pending" // a pending run
	kindRun     = "run"     // a finished run
	kindMeta    = "meta"    // a metadata record
)

// row is a row of the table changes: what something is after a batch.
type row struct {
	number int64
	item   int
	kind   string
	gone   bool // it was removed: only its name follows

	namespace, name string
	seq             int64  // of a pending run; of the first row, the id of the batch
	id              string // of a finished run
	key             blob   // of a metadata record: its kind and its key
	value           blob   // as package codec writes a state or a finished run
	spec            blob   // nil: as it was
	// for people who read the table
	status string
	due    time.Time

	// of the first row
	before int64 // the number of the batch before
	items  int   // how many rows follow
	term   store.Term
}

// blob tells a value that is empty from one that is not there.
type blob []byte

// UnmarshalCQL implements [gocql.Unmarshaler].
func (b *blob) UnmarshalCQL(_ gocql.TypeInfo, data []byte) error {
	*b = bytes.Clone(data)
	return nil
}

// rowOverhead is what a row takes besides its value, at most, if its names are short.
const rowOverhead = 200

func (w *row) size() size {
	return size{1, rowOverhead + len(w.namespace) + len(w.name) + len(w.key) + len(w.value) + len(w.spec)}
}

// insert is the statement that writes the row. A column without a value is left out: to write null is to
// delete.
func (w *row) insert(partition, segment int) statement {
	text := func(s string) any {
		if s == "" {
			return gocql.UnsetValue
		}
		return s
	}
	data := func(b blob) any {
		if b == nil {
			return gocql.UnsetValue
		}
		return []byte(b)
	}
	v := []any{partition, segment, w.number, w.item, w.kind, gocql.UnsetValue, text(w.namespace), text(w.name),
		gocql.UnsetValue, text(w.id), text(w.status), gocql.UnsetValue, data(w.value), data(w.spec), data(w.key),
		gocql.UnsetValue, gocql.UnsetValue, gocql.UnsetValue, gocql.UnsetValue}
	if w.gone {
		v[5] = true
	}
	if w.seq != 0 {
		v[8] = w.seq
	}
	if !w.due.IsZero() {
		v[11] = w.due
	}
	if w.kind == kindBatch {
		v[15], v[16], v[17], v[18] = w.before, w.items, int64(w.term.Epoch), int64(w.term.Nonce)
	}
	return statement{`INSERT INTO $changes (partition, segment, number, item, kind, gone, namespace, name, seq, id, status, due, ` +
		`value, spec, key, before, items, by_epoch, by_nonce) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, v}
}

// selectRows reads the rows of a segment from a number on, in their order.
func selectRows(partition, segment int, from int64) statement {
	return statement{`SELECT number, item, kind, gone, namespace, name, seq, id, value, spec, key, before, items, by_epoch, ` +
		`by_nonce FROM $changes WHERE partition = ? AND segment = ? AND number >= ?`,
		[]any{partition, segment, from}}
}

// scanRow reads a row that selectRows selects.
func scanRow(scan func(...any) error) (w row, err error) {
	var epoch, nonce int64
	err = scan(&w.number, &w.item, &w.kind, &w.gone, &w.namespace, &w.name, &w.seq, &w.id, &w.value, &w.spec,
		&w.key, &w.before, &w.items, &epoch, &nonce)
	w.term = store.Term{Epoch: uint64(epoch), Nonce: uint64(nonce)}
	return w, err
}

// readable is a time as people read it, if it is one.
func readable(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// refRow is the row of what a ref names, without its value.
func refRow(ref store.Ref) row {
	w := row{kind: kindJob, namespace: ref.Namespace, name: ref.Name, seq: int64(ref.Seq)}
	if ref.Seq > 0 {
		w.kind = kindPending
	}
	return w
}

func (w *row) ref() store.Ref {
	return store.Ref{Key: w.jobKey(), Seq: uint64(w.seq)}
}

func (w *row) jobKey() carillon.Key { return carillon.Key{Namespace: w.namespace, Name: w.name} }

// recordRow is the row of a job or a pending run.
func recordRow(r *store.Record, withSpec bool) row {
	w := refRow(r.Ref)
	w.value = codec.AppendState(nil, &r.State)
	w.status, w.due = r.State.Phase.String(), readable(r.State.Due)
	if withSpec {
		w.spec = r.Spec
	}
	return w
}

// runRow is the row of a finished run.
func runRow(r *store.RunRecord) row {
	return row{kind: kindRun, namespace: r.Key.Namespace, name: r.Key.Name, id: r.ID.String(),
		value: codec.AppendRun(nil, r), status: r.Status.String(), due: readable(r.Due)}
}

// goneRunRow is the row of a finished run that is removed.
func goneRunRow(id store.RunID, key carillon.Key) row {
	return row{kind: kindRun, namespace: key.Namespace, name: key.Name, id: id.String(), gone: true}
}

// metaRow is the row of a metadata record.
func metaRow(m *store.MetaRecord) row {
	return row{kind: kindMeta, key: metaKey(m.Kind, m.Key), value: m.Value, gone: m.Value == nil}
}

// metaKey is how a metadata record is called in a row, and in the settings of a segment.
func metaKey(kind byte, key string) []byte { return append([]byte{kind}, key...) }

var errStrange = errors.New("it is not one of the store's rows")

// changes are rows of a batch as a batch.
type changes struct {
	store.Batch
	goneRuns []store.RunID
}

// add takes a row.
func (c *changes) add(w *row) error {
	switch {
	case (w.kind == kindJob || w.kind == kindPending) && w.gone:
		c.Deletes = append(c.Deletes, w.ref())
	case w.kind == kindJob || w.kind == kindPending:
		state, err := codec.DecodeState(w.value)
		if err != nil {
			return err
		}
		c.Puts = append(c.Puts, store.Record{Ref: w.ref(), State: state, Spec: w.spec})
	case w.kind == kindRun && w.gone:
		id, err := store.ParseRunID(w.id)
		if err != nil {
			return fmt.Errorf("%w: %w", store.ErrDamaged, err)
		}
		c.goneRuns = append(c.goneRuns, id)
	case w.kind == kindRun:
		run, err := codec.DecodeRun(w.value)
		if err != nil {
			return err
		}
		c.Runs = append(c.Runs, run)
	case w.kind == kindMeta && len(w.key) > 0:
		m := store.MetaRecord{Kind: w.key[0], Key: string(w.key[1:]), Value: w.value}
		if w.gone {
			m.Value = nil
		} else if m.Value == nil {
			m.Value = []byte{}
		}
		c.MetaRecords = append(c.MetaRecords, m)
	default:
		return errStrange
	}
	return nil
}
