package ordered

import (
	"bytes"
	"errors"
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
	ka, kb := AppendRef(nil, a), AppendRef(nil, b)
	if got, want := bytes.Compare(ka, kb), a.Compare(b); got != want {
		t.Fatalf("%q and %q: keys compare %d, refs %d", a, b, got, want)
	}
	if a != b && (bytes.HasPrefix(ka, kb) || bytes.HasPrefix(kb, ka)) {
		t.Fatalf("the key of %q begins with that of %q, or the other way round", a, b)
	}
	if back, err := ParseRef(ka); err != nil || back != a {
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

// TestTimesAndNumbers reads back what was written, and holds the orders.
func TestTimesAndNumbers(t *testing.T) {
	var last, lastDesc []byte
	for _, at := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
		now, desc := AppendTime(nil, at), AppendTimeDesc(nil, at)
		if bytes.Compare(last, now) >= 0 || lastDesc != nil && bytes.Compare(lastDesc, desc) <= 0 {
			t.Errorf("%d is at %x and %x, after %x and %x", at, now, desc, last, lastDesc)
		}
		last, lastDesc = now, desc
		c := Cutter{B: now}
		if back := c.Time(); back != at || c.End() != nil {
			t.Errorf("%d reads back as %d, %v", at, back, c.End())
		}
	}
	for _, n := range []uint64{0, 1, 255, 256, math.MaxUint64} {
		c := Cutter{B: AppendSeq(nil, n)}
		if back := c.Seq(); back != n || c.End() != nil {
			t.Errorf("%d reads back as %d, %v", n, back, c.End())
		}
	}
}

// TestMalformed cuts bytes that nothing here wrote.
func TestMalformed(t *testing.T) {
	for name, f := range map[string]func(c *Cutter){
		"text without an end":     func(c *Cutter) { c.B = []byte("a"); c.Text() },
		"escape without its byte": func(c *Cutter) { c.B = []byte("a\x01"); c.Text() },
		"escape of another byte":  func(c *Cutter) { c.B = []byte("\x01\x03\x00"); c.Text() },
		"number of nine bytes":    func(c *Cutter) { c.B = append([]byte{9}, make([]byte, 9)...); c.Seq() },
		"number cut off":          func(c *Cutter) { c.B = []byte{2, 1}; c.Seq() },
		"time cut off":            func(c *Cutter) { c.B = make([]byte, 7); c.Time() },
		"nothing":                 func(c *Cutter) { c.Byte() },
		"varint cut off":          func(c *Cutter) { c.B = []byte{0x80}; c.Uvarint() },
		"something left":          func(c *Cutter) { c.B = []byte("a\x00b"); c.Text() },
		"good after bad":          func(c *Cutter) { c.B = []byte("a"); c.Bytes(2); c.Bytes(1) },
	} {
		var c Cutter
		if f(&c); !errors.Is(c.End(), store.ErrDamaged) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestAfter compares with all keys of two bytes.
func TestAfter(t *testing.T) {
	for prefix, want := range map[string][]byte{"": nil, "\xff": nil, "a": []byte("b"), "a\xff": []byte("b"), "ab": []byte("ac")} {
		if got := After([]byte(prefix)); !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("after %q comes %q, want %q", prefix, got, want)
		}
	}
}
