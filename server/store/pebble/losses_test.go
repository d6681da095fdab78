package pebble

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/carillonhq/carillon/server/store"
)

// lettersWithout is a source of the keys a to z, each its own value, without what the spans have lost.
func lettersWithout(t *testing.T, spans ...span) source {
	t.Helper()
	db, l := memoryDB(t), &losses{}
	commitTo(t, db, func(out *pebbledb.Batch) error {
		var err error
		for c := byte('a'); c <= 'z'; c++ {
			err = errors.Join(err, out.Set([]byte{c}, []byte{c}, nil))
		}
		return err
	})
	for _, s := range spans {
		l.add(s)
	}
	return source{db, l}
}

// lostSpan is the loss of a table with the keys from lower to upper, without upper. edge is its last readable
// key; "" if there is none.
func lostSpan(table, edge, lower, upper string) span {
	s := span{table: table, lower: []byte(lower), upper: []byte(upper),
		cause: errors.New("bad block\nand a trace")}
	if edge != "" {
		s.edge = []byte(edge)
	}
	return s
}

// TestLostKeysAreSkippedOrRefused: a scan that must be whole fails where it meets one, and one that takes
// what is left skips them, however the lost ranges lie.
func TestLostKeysAreSkippedOrRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spans []span
		want  string
	}{
		"nothing lost":   {nil, "cdefgh"},
		"in the middle":  {[]span{lostSpan("1", "", "e", "g")}, "cdgh"},
		"at the start":   {[]span{lostSpan("1", "", "a", "d")}, "defgh"},
		"at the end":     {[]span{lostSpan("1", "", "g", "z")}, "cdef"},
		"all":            {[]span{lostSpan("1", "", "a", "z")}, ""},
		"with an edge":   {[]span{lostSpan("1", "d", "d\x00", "g")}, "cdgh"},
		"two":            {[]span{lostSpan("1", "", "d", "e"), lostSpan("2", "", "g", "h")}, "cefh"},
		"overlapping":    {[]span{lostSpan("1", "", "d", "g"), lostSpan("2", "", "e", "h")}, "ch"},
		"one in another": {[]span{lostSpan("1", "", "d", "h"), lostSpan("2", "", "e", "f")}, "ch"},
		"edge lost too":  {[]span{lostSpan("1", "e", "e\x00", "g"), lostSpan("2", "", "d", "f")}, "cgh"},
	} {
		r := lettersWithout(t, c.spans...)
		var left, whole string
		if err := eachLeft(r, []byte("c"), []byte("i"), func(key, value []byte) (bool, error) {
			left += string(value)
			return true, nil
		}); err != nil || left != c.want {
			t.Errorf("%s: left are %q, %v; want %q", name, left, err, c.want)
		}
		err := each(r, []byte("c"), []byte("i"), func(key, value []byte) (bool, error) {
			whole += string(value)
			return true, nil
		})
		if lost := len(c.spans) > 0; errors.Is(err, store.ErrDamaged) != lost || (whole == "") != lost {
			t.Errorf("%s: a scan of all has %q, %v", name, whole, err)
		}
		for key := byte('c'); key < 'i'; key++ {
			value, ok, err := get(r, []byte{key})
			there := strings.Contains(c.want, string(key))
			if there != (ok && value[0] == key) || there == errors.Is(err, store.ErrDamaged) {
				t.Errorf("%s: %c is %q, %v, %v", name, key, value, ok, err)
			}
		}
	}
}

func TestAScanOfWhatIsLeftCanStop(t *testing.T) {
	for _, stopAt := range []byte("chz") {
		var seen string
		err := eachLeft(lettersWithout(t, lostSpan("1", "", "e", "g")), []byte("c"), []byte("{"),
			func(key, _ []byte) (bool, error) {
				seen += string(key)
				return key[0] != stopAt, nil
			})
		if err != nil || seen[len(seen)-1] != stopAt {
			t.Errorf("asked to stop at %c it has seen %q, %v", stopAt, seen, err)
		}
	}
}

// TestALossNamesItsPartitions: those that the lost keys can belong to, and store-wide metadata as -1.
func TestALossNamesItsPartitions(t *testing.T) {
	k := func(p int) []byte { return appendHead(nil, p, kindHead) }
	for _, c := range []struct {
		lower, upper []byte
		want         []int
	}{
		{k(3), k(3), []int{3}},
		{k(3), k(5), []int{3, 4, 5}},
		{k(storePartition), k(storePartition), []int{-1}},
		{k(storePartition - 1), k(storePartition), []int{storePartition - 1, -1}},
		{nil, k(3), nil},
		{k(3), nil, nil},
		{[]byte{0}, k(1), []int{0, 1}},
	} {
		if got := partitionsOf(c.lower, c.upper); !slices.Equal(got, c.want) {
			t.Errorf("from %x to %x: %v, want %v", c.lower, c.upper, got, c.want)
		}
	}
	s := lostSpan("t", "", string(k(3)), string(k(4)))
	if d := s.damage(); d.Part != "t" || d.Cause.Error() != "bad block" ||
		!slices.Equal(d.Partitions, []int{3, 4}) {
		t.Errorf("the event says %+v", d)
	}
}

func TestATableHasOneSpan(t *testing.T) {
	var l losses
	if l.any() {
		t.Error("something is lost from the start")
	}
	l.add(lostSpan("1", "", "x", "z"))
	l.add(lostSpan("2", "", "c", "d"))
	l.add(lostSpan("1", "", "a", "b")) // examined again
	if in := l.within([]byte("a"), []byte("{")); len(in) != 2 || in[0].table != "1" ||
		in[1].table != "2" || !l.any() {
		t.Errorf("lost are %v", in)
	}
	if l.check([]byte("x")) != nil || l.check([]byte("a")) == nil || l.check([]byte("b")) != nil {
		t.Error("the old span counts, or not the new one")
	}
}

// TestNobodyWaitsForAHaltedCompaction: neither who comes later, nor who waits already.
func TestNobodyWaitsForAHaltedCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &losses{halted: make(chan struct{})}
		if err := l.unlessHalted(func() error {
			return errors.ErrUnsupported
		}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("without one: %v", err)
		}
		end, waits := make(chan struct{}), make(chan error, 1)
		go func() { waits <- l.unlessHalted(func() error { <-end; return nil }) }()
		synctest.Wait()
		if len(waits) > 0 {
			t.Error("it has not waited for a compaction that goes on")
		}
		l.haltOnce.Do(func() { close(l.halted) })
		if err := <-waits; !errors.Is(err, errHalted) {
			t.Errorf("who waits: %v", err)
		}
		if err := l.unlessHalted(func() error { t.Error("it is begun"); return nil }); !errors.Is(err, errHalted) {
			t.Errorf("who comes later: %v", err)
		}
		close(end)
	})
}
