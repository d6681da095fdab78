package contents_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
)

// drawn makes random batches about a few jobs, so that they meet each other.
type drawn struct{ *rand.Rand }

func (d drawn) key() carillon.Key {
	return carillon.Key{Namespace: "n", Name: fmt.Sprint("job-", d.IntN(4))}
}

func (d drawn) uid() (uid carillon.UID) {
	uid[0] = byte(d.IntN(3))
	return uid
}

func (d drawn) record(ref store.Ref) store.Record {
	r := store.Record{Ref: ref, Spec: []byte{byte(d.IntN(256))}, State: store.State{UID: d.uid(),
		Due: int64(d.IntN(3)), Queue: "q", Phase: carillon.Phase(d.IntN(int(carillon.PhaseWaiting) + 1))}}
	r.State.Run = store.RunState{Live: d.IntN(2) == 0, Seq: ref.Seq, Scheduled: int64(d.IntN(1000))}
	if d.IntN(3) == 0 {
		r.Spec = nil
	}
	return r
}

func (d drawn) run() store.RunRecord {
	return store.RunRecord{Key: d.key(), ID: store.RunID{UID: d.uid(), Scheduled: int64(d.IntN(12))},
		Status:   carillon.RunSucceeded + carillon.RunStatus(d.IntN(int(carillon.RunSkipped-carillon.RunSucceeded))),
		Finished: int64(d.IntN(50)), Expires: 1 + int64(d.IntN(50))}
}

func (d drawn) batch() *store.Batch {
	b := &store.Batch{}
	refs := map[store.Ref]bool{}
	for range d.IntN(5) {
		ref := store.Ref{Key: d.key(), Seq: uint64(d.IntN(3))}
		switch {
		case refs[ref]:
		case d.IntN(4) == 0:
			b.Deletes = append(b.Deletes, ref)
		default:
			b.Puts = append(b.Puts, d.record(ref))
		}
		refs[ref] = true
	}
	for range d.IntN(4) {
		b.Runs = append(b.Runs, d.run())
	}
	if d.IntN(3) == 0 {
		b.Trims = append(b.Trims, store.Trim{Key: d.key(), Keep: d.IntN(3)})
	}
	if d.IntN(3) == 0 {
		gone := d.run()
		b.Redrive = append(b.Redrive, store.RunRef{Key: gone.Key, ID: gone.ID})
	}
	if d.IntN(5) == 0 {
		b.Expire = &store.Expire{Before: int64(d.IntN(30)), Most: d.IntN(20), Limit: 1 + d.IntN(5)}
	}
	b.MetaRecords = append(b.MetaRecords, store.MetaRecord{Kind: 'k', Key: fmt.Sprint(d.IntN(3)),
		Value: [][]byte{nil, {1}, {2}}[d.IntN(3)]})
	return b
}

// holds is all that a partition holds, by what names it.
type holds struct {
	records map[store.Ref]string
	runs    map[store.RunID]string
	meta    map[string]string
}

func holdsOf(p *contents.Partition) holds {
	h := holds{map[store.Ref]string{}, map[store.RunID]string{}, map[string]string{}}
	for _, r := range p.List(store.ListQuery{Pending: true, Limit: math.MaxInt}) {
		h.records[r.Ref] = fmt.Sprintf("%+v", r)
	}
	for i := range 4 {
		of := carillon.Key{Namespace: "n", Name: fmt.Sprint("job-", i)}
		runs, _ := p.Runs(store.RunQuery{Job: &of, Limit: math.MaxInt})
		for _, r := range runs {
			h.runs[r.ID] = fmt.Sprintf("%+v", r)
		}
	}
	for _, m := range p.Gather('k') {
		h.meta[m.Key] = string(m.Value)
	}
	return h
}

func (h holds) equal(o holds) bool {
	return maps.Equal(h.records, o.records) && maps.Equal(h.runs, o.runs) && maps.Equal(h.meta, o.meta)
}

// differing are the keys whose values differ.
func differing[K comparable](a, b map[K]string) (out []K) {
	for k, v := range a {
		if other, ok := b[k]; !ok || other != v {
			out = append(out, k)
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			out = append(out, k)
		}
	}
	return out
}

// TestTouchedNamesAllThatChanges plays random batches: what differs after one is in Touched, and a copy from
// before it stays as it was.
func TestTouchedNamesAllThatChanges(t *testing.T) {
	for seed := range uint64(50) {
		d := drawn{rand.New(rand.NewPCG(seed, 1))}
		p := contents.New(0)
		for step := range 60 {
			was, before := holdsOf(p), p
			p = p.Copy()
			touched := contents.NewTouched()
			p.Change(d.batch(), touched)
			is := holdsOf(p)
			for _, ref := range differing(was.records, is.records) {
				if _, ok := touched.Records[ref]; !ok {
					t.Fatalf("seed %d, step %d: %v has changed and is not touched", seed, step, ref)
				}
			}
			for _, id := range differing(was.runs, is.runs) {
				if _, ok := touched.Runs[id]; !ok {
					t.Fatalf("seed %d, step %d: run %v has changed and is not touched", seed, step, id)
				}
			}
			if !holdsOf(before).equal(was) {
				t.Fatalf("seed %d, step %d: the copied partition has changed", seed, step)
			}
		}
		if h := holdsOf(p); len(h.records) == 0 || len(h.runs) == 0 {
			t.Errorf("seed %d: nothing is left", seed)
		}
	}
}

// TestACopyIsIndependent: two copies of one partition change apart, in either order.
func TestACopyIsIndependent(t *testing.T) {
	d := drawn{rand.New(rand.NewPCG(7, 7))}
	p := contents.New(0)
	for range 20 {
		p.Change(d.batch(), nil)
	}
	was := holdsOf(p)
	first, second := p.Copy(), p.Copy()
	first.Change(d.batch(), nil)
	one := holdsOf(first)
	for range 20 {
		second.Change(d.batch(), nil)
	}
	for name, pair := range map[string][2]holds{"the origin": {holdsOf(p), was}, "the first": {holdsOf(first), one}} {
		if !pair[0].equal(pair[1]) {
			t.Errorf("%s has changed with the other", name)
		}
	}
	if refs := slices.Collect(maps.Keys(holdsOf(second).records)); len(refs) == 0 {
		t.Error("nothing is left")
	}
}
