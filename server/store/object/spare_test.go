package object_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/object"
)

// TestSpare: what is written and read of many partitions is in memory no longer than it must be. Those that are
// not in memory are written without being read, and who reads them, here or elsewhere, sees all of it.
func TestSpare(t *testing.T) {
	const partitions, jobs, most = 12, 20, 4 * 20 // of 4 partitions, which may be read at the same time
	b := bucketOf(t, realserver.StartS3(t, bucketName))
	o := object.Options{Bucket: b, Prefix: "spare", Every: time.Millisecond, Partitions: partitions}
	s := servertest.Opened(t, object.Hurried(o, 1000, time.Hour), object.Open)
	s.Spare(most)
	var shards []store.Shard
	want := map[int][]string{}
	for p := range partitions {
		sh, _ := servertest.Own(t, s, p)
		shards = append(shards, sh)
		for i := range jobs {
			name := fmt.Sprintf("job-%d-%02d", p, i)
			fill := servertest.Batch(name)
			if p%2 == 0 { // they are too long to be at hand: there is a snapshot first
				fill.Puts[0].Spec = make([]byte, 100<<10)
			}
			servertest.Want(t, "filled", sh, fill, store.Applied)
			want[p] = append(want[p], name)
		}
	}
	spared := func(what string) {
		t.Helper()
		servertest.Until(t, func() error {
			if n := s.InMemory(); n > most {
				return fmt.Errorf("%s: %d jobs are in memory, of at most %d", what, n, most)
			}
			return nil
		})
	}
	spared("filled")
	for round := range 3 {
		before := s.InMemory()
		for p, sh := range shards {
			gone, name := want[p][0], fmt.Sprintf("late-%d-%d", p, round)
			change := servertest.Batch(name)
			change.Deletes = []store.Ref{servertest.Batch(gone).Puts[0].Ref}
			servertest.Want(t, "changed", sh, change, store.Applied)
			want[p] = append(want[p][1:], name)
		}
		if is := s.InMemory(); is > before {
			t.Errorf("round %d: %d jobs are in memory after changes, and were %d before: they were read", round, is, before)
		}
		for p, sh := range shards {
			servertest.Want(t, "again", sh, servertest.Batch(want[p][1]), store.Applied) // the version goes on
		}
		other := servertest.Opened(t, o, object.Open)
		for p, sh := range shards {
			here, there := servertest.Names(t, sh), servertest.Names(t, servertest.Shard(t, other, p, store.Term{}))
			slices.Sort(want[p])
			slices.Sort(here)
			slices.Sort(there)
			if !slices.Equal(here, want[p]) || !slices.Equal(there, want[p]) {
				t.Fatalf("round %d, partition %d: %q, for others %q, want %q", round, p, here, there, want[p])
			}
		}
		spared("read")
	}
}
