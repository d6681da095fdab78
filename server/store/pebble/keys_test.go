package pebble

import (
	"bytes"
	"cmp"
	"math"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// FuzzDueOrder holds the due and staged indexes against their order: priority, time, ref.
func FuzzDueOrder(f *testing.F) {
	f.Add(uint8(0), int64(-1), "a", uint8(0), int64(1), "b")
	f.Add(uint8(3), int64(math.MinInt64), "", uint8(2), int64(math.MaxInt64), "\x00")
	f.Fuzz(func(t *testing.T, class1 uint8, due1 int64, name1 string, class2 uint8, due2 int64, name2 string) {
		a, b := store.Ref{Key: carillon.Key{Name: name1}}, store.Ref{Key: carillon.Key{Name: name2}}
		want := cmp.Or(cmp.Compare(class1, class2), cmp.Compare(due1, due2), a.Compare(b))
		if got := bytes.Compare(appendDueKey(nil, 5, class1, due1, a),
			appendDueKey(nil, 5, class2, due2, b)); got != want {
			t.Errorf("due keys compare %d, want %d", got, want)
		}
		if got := bytes.Compare(appendStagedKey(nil, 5, "q", class1, due1, a),
			appendStagedKey(nil, 5, "q", class2, due2, b)); got != want {
			t.Errorf("staged keys compare %d, want %d", got, want)
		}
	})
}

// FuzzParse reads arbitrary bytes: nothing may panic, and what is accepted is written back the same.
func FuzzParse(f *testing.F) {
	s := store.State{Due: 5, Phase: carillon.PhaseStaged, Queue: "q", Run: store.RunState{Live: true, Seq: 300}}
	h := headOf(3, &s)
	h.flags |= specApart
	h.specLen = 70_000
	f.Add(h.append(nil))
	f.Add(appendBody(nil, &s, spec{form: specInBody, inline: []byte("spec")}))
	f.Add(ordered.AppendRef(nil, store.Ref{Key: carillon.Key{Namespace: "\x00", Name: "\x01"}, Seq: 9}))
	f.Add(appendRun(nil, &store.RunID{Scheduled: 9, Seq: 400}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := ordered.ParseRef(b); err == nil {
			if back, err := ordered.ParseRef(ordered.AppendRef(nil, r)); err != nil || back != r {
				t.Errorf("ref %q becomes %q, %v", r, back, err)
			}
		}
		c := ordered.Cutter{B: b}
		if id := cutRun(&c, 3); c.End() == nil {
			c = ordered.Cutter{B: appendRun(nil, &id)}
			if back := cutRun(&c, 3); c.End() != nil || back != id {
				t.Errorf("run %v becomes %v, %v", id, back, c.End())
			}
		}
		if h, err := parseHead(3, b); err == nil {
			if back, err := parseHead(3, append(h.append(nil), h.body...)); err != nil || !sameHead(&h, &back) {
				t.Errorf("head %+v becomes %+v, %v", h, back, err)
			}
		}
		_, _, _ = splitBody(b)
	})
}

// TestRunOrder holds the history's order against: newest scheduled first, and every run of a job under its
// prefix.
func TestRunOrder(t *testing.T) {
	k := carillon.Key{Namespace: "ns", Name: "job"}
	prefix := appendHistoryPrefix(nil, 7, k)
	var last []byte
	for _, at := range []int64{math.MaxInt64, 5, 4, 0, -1, math.MinInt64} {
		id := store.RunID{UID: store.NewUID(k, [8]byte{1}), Scheduled: at, Seq: 3}
		got := appendHistoryKey(nil, 7, &id)
		if !bytes.HasPrefix(got, prefix) || bytes.Compare(last, got) >= 0 {
			t.Errorf("the run of %d is at %x, after %x under %x", at, got, last, prefix)
		}
		last = got
	}
}
