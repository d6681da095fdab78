package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// fakeMemory holds refs.
type fakeMemory map[store.Ref]bool

func (m fakeMemory) Has(ref store.Ref) bool { return m[ref] }

func (m fakeMemory) Load(records []store.Record, _ int64) {
	for i := range records {
		if records[i].Exists {
			m[records[i].Ref] = true
		}
	}
}

func (m fakeMemory) Settle(refs []store.Ref) {
	maps.DeleteFunc(m, func(ref store.Ref, _ bool) bool { return slices.Contains(refs, ref) })
}

func (m fakeMemory) Holds(id store.RunID) (store.Ref, bool) {
	ref := runOf(id.Seq)
	return ref, m[ref]
}

func (m fakeMemory) Absent(_ carillon.Key, last uint64, n int) (refs []store.Ref) {
	for seq := last + 1; seq <= runsOfTest && len(refs) < n; seq++ {
		if !m[runOf(seq)] {
			refs = append(refs, runOf(seq))
		}
	}
	return refs
}

func (m fakeMemory) Ending(id store.RunID) (store.RunRecord, bool) {
	return store.RunRecord{ID: id, Response: []byte("on its way")}, id.Seq == 1
}

// runsOfTest is how many pending runs the job of the tests has.
const runsOfTest = 2*pendingAtOnce + 1

func refOf(name string) store.Ref { return store.Ref{Key: carillon.Key{Namespace: "n", Name: name}} }

// runOf returns the record of a run of the job of the tests.
func runOf(seq uint64) store.Ref { ref := refOf("job"); ref.Seq = seq; return ref }

// fakeShard has every record, and counts its reads.
type fakeShard struct {
	store.Shard
	reads int
	read  []store.Ref
	err   error
}

func (f *fakeShard) Read(_ context.Context, refs []store.Ref) ([]store.Record, error) {
	f.reads++
	f.read = append(f.read, refs...)
	records := make([]store.Record, len(refs))
	for i, ref := range refs {
		records[i] = store.Record{Ref: ref, Exists: true}
	}
	return records, f.err
}

func (f *fakeShard) Live(_ context.Context, id store.RunID) (store.Ref, bool, error) {
	return runOf(id.Seq), id.Seq != 99, f.err
}

func (f *fakeShard) Runs(_ context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	if q.ID.Seq != 2 {
		return nil, f.err
	}
	return []store.RunRecord{{ID: *q.ID}}, f.err
}

func recordsOf(m memory, f *fakeShard) roundRecords {
	return newRoundRecords(m, &reads{lane: &lane{near: true}, shard: f})
}

func TestRecordsAreReadOnce(t *testing.T) {
	m, l := fakeMemory{}, &fakeShard{}
	r := recordsOf(m, l)
	m[refOf("here")] = true
	live := []store.RunID{{Seq: 5}, {Seq: 5}, {Seq: 99}}
	for range 2 {
		if err := r.bring([]store.Ref{refOf("here"), refOf("a"), refOf("a")}, live, 0); err != nil {
			t.Fatal(err)
		}
	}
	if want := []store.Ref{refOf("a"), runOf(5), refOf("job")}; l.reads != 1 || !slices.Equal(l.read, want) {
		t.Errorf("read %d times: %v", l.reads, l.read)
	}
	l.err = errTest
	if err := r.bring(nil, []store.RunID{{Seq: 6}}, 0); !errors.Is(err, errTest) {
		t.Errorf("a read that fails: %v", err)
	}
}

func TestAllPendingRunsAreBrought(t *testing.T) {
	m, l := fakeMemory{}, &fakeShard{}
	r := recordsOf(m, l)
	if err := r.bringPending(refOf("job").Key, 0); err != nil || len(m) != runsOfTest || l.reads != 3 {
		t.Errorf("%d runs in memory after %d reads: %v", len(m), l.reads, err)
	}
	if r.settle(); len(m) != 0 {
		t.Errorf("%d runs in memory after the round", len(m))
	}
}

func TestEndedRuns(t *testing.T) {
	r := recordsOf(fakeMemory{}, &fakeShard{})
	for seq, want := range map[uint64]string{1: "on its way", 2: "", 3: "none"} {
		run, found, err := r.ended(store.RunID{Seq: seq})
		if err != nil || found != (want != "none") || found && string(run.Response) != want {
			t.Errorf("run %d: %v, %v, %v", seq, run, found, err)
		}
	}
}

func TestRecordsStayForARound(t *testing.T) {
	m, l := fakeMemory{}, &fakeShard{}
	r := recordsOf(m, l)
	here, gone := refOf("here"), refOf("gone")
	refs := []store.Ref{here, gone}
	r.loadAhead(refs, []store.Record{{Ref: here, Exists: true}, {Ref: gone}}, 0)
	if err := r.bring(refs, nil, 0); err != nil || l.reads != 0 {
		t.Errorf("what was read is read again: %v", err)
	}
	r.settle()
	if err := r.bring(refs, nil, 0); err != nil || !slices.Equal(l.read, refs) {
		t.Errorf("read in the next round: %v, %v", l.read, err)
	}
}

// TestOldRecordsAreNotTaken: a record that was sent to the store during the read is read again.
func TestOldRecordsAreNotTaken(t *testing.T) {
	m := fakeMemory{}
	r := recordsOf(m, &fakeShard{})
	run := refOf("put")
	run.Seq = 3
	read := func() (taken []string) {
		refs := []store.Ref{refOf("put"), run, refOf("deleted"), refOf("other")}
		records := make([]store.Record, len(refs))
		for i, ref := range refs {
			records[i] = store.Record{Ref: ref, Exists: true}
		}
		r.loadAhead(refs, records, 0)
		for ref := range m {
			taken = append(taken, ref.Name)
		}
		r.settle()
		slices.Sort(taken)
		return taken
	}
	batch := &store.Batch{Puts: []store.Record{{Ref: refOf("put")}}, Deletes: []store.Ref{refOf("deleted")}}
	r.sent(batch) // before the read
	if got := read(); !slices.Equal(got, []string{"deleted", "other", "put", "put"}) {
		t.Errorf("taken: %v", got)
	}
	r.ahead = true
	r.sent(batch)
	if got := read(); !slices.Equal(got, []string{"other"}) {
		t.Errorf("taken of a read that may be old: %v", got)
	}
	r.readEnded()
	if got := read(); len(got) != 4 {
		t.Errorf("taken by the next read: %v", got)
	}
}
