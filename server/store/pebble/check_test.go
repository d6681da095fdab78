package pebble_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// TestCheck spoils a table here and there: every job that can no longer be read is named, and no other. A job
// whose entries stand in the same block, the last one of the names and the first ones of the due times,
// leaves nothing to name it by.
func TestCheck(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	p := startWriter(t, dir, sizes{1 << 20, 5})
	p.until(t, 6000)
	acked := p.end(t)
	whole, err := pebble.Check(dir, pebble.Options{})
	if err != nil || !whole.Whole() || whole.Records != acked {
		t.Fatalf("a whole store: %+v, %v", whole, err)
	}
	named := 0
	for part := range 10 {
		copied := filepath.Join(t.TempDir(), "copy")
		linkAll(t, dir, copied)
		spoilTable(t, copied, float64(part)/10)
		got, err := pebble.Check(copied, pebble.Options{})
		if err != nil || got.Whole() || len(got.Damaged) != 1 || got.Refused != nil {
			t.Fatalf("a bit at %d/10: %+v, %v", part, got, err)
		}
		lost := map[carillon.Key]bool{}
		for _, l := range got.Lost {
			lost[l.Key] = true
		}
		named += len(lost)
		nameless := 0
		shards := own(t, open(t, copied, pebble.Options{}), writerPartitions)
		for pass := range 2 { // in the first one, it is found out
			for j := range acked {
				_, err := shards[j/5%writerPartitions].Read(t.Context(), []store.Ref{{Key: key(j)}})
				if pass == 0 {
					continue
				}
				switch {
				case errors.Is(err, store.ErrDamaged) && !lost[key(j)]:
					nameless++
				case errors.Is(err, store.ErrDamaged) != lost[key(j)]:
					t.Fatalf("a bit at %d/10: job %s, named as lost: %v, is read with %v", part, key(j), lost[key(j)], err)
				}
			}
		}
		if nameless > 3 {
			t.Errorf("a bit at %d/10: %d jobs are lost without a name", part, nameless)
		}
	}
	if named == 0 {
		t.Error("nothing was ever lost")
	}
}

// spoilTable flips a bit at a part of the largest table.
func spoilTable(t *testing.T, dir string, part float64) {
	t.Helper()
	var text []byte
	var largest string
	for _, name := range files(t, dir, "*.sst") {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > len(text) {
			text, largest = b, name
		}
	}
	text[int(part*float64(len(text)))] ^= 4
	if err := errors.Join(os.Remove(largest), os.WriteFile(largest, text, 0o600)); err != nil {
		t.Fatal(err)
	}
}
