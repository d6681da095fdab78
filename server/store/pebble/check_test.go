package pebble_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// TestCheck spoils a table here and there: every job that can no longer be read is named, and no other. Only a
// job of which both the entry by name and the entry by due time are in the lost range leaves nothing to name
// it by.
func TestCheck(t *testing.T) {
	if testing.Short() {
		t.Skip("ten damaged copies of a store are not for -short")
	}
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
		shards := own(t, open(t, copied, pebble.Options{}), writerPartitions)
		for pass := range 2 { // in the first one, it is found out
			for j := range acked {
				_, err := shards[j/5%writerPartitions].Read(t.Context(), []store.Ref{{Key: key(j)}})
				if pass == 0 {
					continue
				}
				switch {
				case errors.Is(err, store.ErrDamaged) && !lost[key(j)]:
					if !unnamed(got.Damaged[0], j) {
						t.Errorf("a bit at %d/10: job %s is lost without a name", part, key(j))
					}
				case errors.Is(err, store.ErrDamaged) != lost[key(j)]:
					t.Fatalf("a bit at %d/10: job %s, named as lost: %v, is read with %v", part, key(j), lost[key(j)], err)
				}
			}
		}
	}
	if named == 0 {
		t.Error("nothing was ever lost")
	}
}

// unnamed reports whether both entries of a job are in the range that is lost: it begins among the names of
// the job's partition, before the job's, and ends among the due times, after the job's.
func unnamed(lost pebble.Damage, job int) bool {
	p := job / 5 % writerPartitions
	from, name := among(lost.From, p, "job ")
	to, last := among(lost.To, p, "due entry ")
	if from == 0 {
		from = strings.Compare(name, key(job).String())
	}
	if to == 0 { // jobs are due in the order of their numbers
		to = 1
		for j := range job {
			if key(j).String() == last {
				to = -1
			}
		}
	}
	return from <= 0 && to >= 0
}

// among compares an end of a lost range with the entries of a kind, "job " or "due entry ", of a partition. If
// it is one of them, what is also returned is its key.
func among(end string, partition int, kind string) (order int, key string) {
	var p int
	if _, err := fmt.Sscanf(end, "partition %d,", &p); err != nil {
		p = -1 // the range begins with the table's first key
	}
	if p != partition {
		return cmp.Compare(p, partition), ""
	}
	_, words, _ := strings.Cut(end, ", ")
	if key, ok := strings.CutPrefix(words, kind); ok {
		return 0, key
	}
	sorted := []string{"job ", "pending run ", "due entry "}
	of := slices.IndexFunc(sorted, func(k string) bool { return strings.HasPrefix(words, k) })
	if of < 0 {
		of = len(sorted)
	}
	return cmp.Compare(of, slices.Index(sorted, kind)), ""
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
