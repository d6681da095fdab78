package pebble

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// FuzzRefOrder holds the order of keys against Ref.Compare, and reads back what was written.
func FuzzRefOrder(f *testing.F) {
	f.Add("a", "b", uint64(0), "a", "b\x00", uint64(1))
	f.Add("", "", uint64(1), "\x00", "\x01", uint64(256))
	f.Add("ns", "a/b", uint64(math.MaxUint64), "ns\x01", "a", uint64(255))
	f.Add("\xff\xff", "\xff", uint64(7), "\xff", "\xff\xff", uint64(7))
	f.Fuzz(func(t *testing.T, ns1, name1 string, seq1 uint64, ns2, name2 string, seq2 uint64) {
		a := store.Ref{Key: carillon.Key{Namespace: ns1, Name: name1}, Seq: seq1}
		b := store.Ref{Key: carillon.Key{Namespace: ns2, Name: name2}, Seq: seq2}
		checkRefs(t, a, b)
	})
}

func checkRefs(t *testing.T, a, b store.Ref) {
	t.Helper()
	ka, kb := appendRef(nil, a), appendRef(nil, b)
	if got, want := bytes.Compare(ka, kb), a.Compare(b); got != want {
		t.Fatalf("%q and %q: keys compare %d, refs %d", a, b, got, want)
	}
	if a != b && (bytes.HasPrefix(ka, kb) || bytes.HasPrefix(kb, ka)) {
		t.Fatalf("the key of %q begins with that of %q, or the other way round", a, b)
	}
	if back, err := parseRef(ka); err != nil || back != a {
		t.Fatalf("%q reads back as %q, %v", a, back, err)
	}
}

// TestRefOrder is FuzzRefOrder with names that are close to each other.
func TestRefOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		b := make([]byte, r.IntN(4))
		for i := range b {
			b[i] = []byte{0, 1, 2, 'a', 0xfe, 0xff}[r.IntN(6)]
		}
		return string(b)
	}
	ref := func() store.Ref {
		return store.Ref{Key: carillon.Key{Namespace: text(), Name: text()}, Seq: r.Uint64N(4) << (r.UintN(8) * 8)}
	}
	for range 100_000 {
		checkRefs(t, ref(), ref())
	}
}

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
	f.Add(appendRef(nil, store.Ref{Key: carillon.Key{Namespace: "\x00", Name: "\x01"}, Seq: 9}))
	f.Add(appendRun(nil, &store.RunID{Scheduled: 9, Seq: 400}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := parseRef(b); err == nil {
			if back, err := parseRef(appendRef(nil, r)); err != nil || back != r {
				t.Errorf("ref %q becomes %q, %v", r, back, err)
			}
		}
		if id, err := parseRun(b, 3); err == nil {
			if back, err := parseRun(appendRun(nil, &id), 3); err != nil || back != id {
				t.Errorf("run %v becomes %v, %v", id, back, err)
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
