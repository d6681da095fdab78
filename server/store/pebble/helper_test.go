package pebble_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// open opens a store that the test closes.
func open(t testing.TB, dir string, opt pebble.Options) *pebble.Store {
	t.Helper()
	s, err := pebble.Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// own claims partitions 0 … n-1.
func own(t testing.TB, s store.Store, n int) []store.Shard {
	t.Helper()
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	terms, err := s.Leaser().Claim(t.Context(), "node", numbers, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	shards := make([]store.Shard, n)
	for i := range shards {
		if shards[i], err = s.Shard(i, terms[i]); err != nil {
			t.Fatal(err)
		}
	}
	return shards
}

// key is the i-th job's.
func key(i int) carillon.Key {
	return carillon.Key{Namespace: "default", Name: fmt.Sprintf("orders/%08x-reminder", uint32(i)*2654435761)}
}

// job is a record of about 300 bytes on disk.
func job(i int, due int64, spec []byte) store.Record {
	k := key(i)
	return store.Record{
		Ref:  store.Ref{Key: k},
		Spec: spec,
		State: store.State{
			UID: store.NewUID(k, [8]byte{byte(i), byte(i >> 8), byte(i >> 16)}), Generation: 1,
			Created: 1_790_000_000_000_000_000, Updated: 1_790_000_000_000_000_000,
			Priority: 2, Due: due, Anchor: due, Next: due,
		},
	}
}

// finished is the run that a job's only run becomes.
func finished(r store.Record, at int64) store.RunRecord {
	return store.RunRecord{
		Key: r.Key, ID: store.RunID{UID: r.State.UID, Scheduled: r.State.Due}, Grant: store.Grant{Generation: 1},
		Status: carillon.RunSucceeded, Due: r.State.Due, Started: at, Finished: at,
		Expires: at + int64(72*time.Hour), Attempt: 1, Worker: "worker-1",
	}
}
