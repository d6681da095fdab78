package pebble

import (
	"errors"
	"testing"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"
)

func TestTheEndOfLeasesIsTheLatest(t *testing.T) {
	db := memoryDB(t)
	if at, err := readUntil(db); err != nil || !at.IsZero() {
		t.Errorf("of a new store: %v, %v", at, err)
	}
	var o owners
	for _, c := range []struct{ until, want int64 }{{100, 100}, {50, 100}, {101, 101}} {
		commitTo(t, db, func(out *pebbledb.Batch) error { return o.lasts(out, time.Unix(0, c.until)) })
		if at, err := readUntil(db); err != nil || at.UnixNano() != c.want {
			t.Errorf("after %d it is %v, %v", c.until, at, err)
		}
	}
	commitTo(t, db, func(out *pebbledb.Batch) error { return out.Set(untilKey(), []byte("short"), nil) })
	if at, err := readUntil(db); !errors.Is(err, errKey) {
		t.Errorf("of a damaged one: %v, %v", at, err)
	}
}
