package object_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/object"
	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// outOfMemory fills partitions with jobs, and waits until nothing of them is in memory, but for the snapshots
// and what is behind them.
func outOfMemory(t *testing.T, s *object.Store, partitions, jobs int) (shards []store.Shard) {
	t.Helper()
	for p := range partitions {
		sh, _ := servertest.Own(t, s, p)
		shards = append(shards, sh)
		for i := range jobs {
			servertest.Want(t, "filled", sh, servertest.Batch(fmt.Sprintf("job-%02d", i)), store.Applied)
		}
	}
	s.Spare(1) // what was written before is not at hand: there is a snapshot
	gone(t, s)
	return shards
}

func gone(t *testing.T, s *object.Store) {
	t.Helper()
	servertest.Until(t, func() error {
		if n := s.InMemory(); n > 0 {
			return fmt.Errorf("%d jobs are in memory", n)
		}
		return nil
	})
}

// TestSpareWhileRead: a partition of which pages are read is read once, however often the keeper looks between
// them, however long that takes, and though it alone has more than there is to be in memory. But no more
// partitions stay for that than are read at the same time.
func TestSpareWhileRead(t *testing.T) {
	const partitions, jobs = 12, 5
	b := bucketOf(t, realserver.StartS3(t, bucketName))
	o := object.Options{Bucket: b, Prefix: "pages", Every: time.Millisecond, Partitions: partitions}
	s := servertest.Opened(t, object.Hurried(o, 1000, time.Hour), object.Open)
	shards := outOfMemory(t, s, partitions, jobs)
	look := func(after time.Duration) {
		t.Helper()
		if err := s.Look(t.Context(), after); err != nil {
			t.Fatal(err)
		}
	}
	list := func(sh store.Shard, q *store.ListQuery) {
		t.Helper()
		page, err := sh.List(t.Context(), *q)
		if err != nil || len(page) != 1 {
			t.Fatalf("%d jobs, %v", len(page), err)
		}
		q.Past(page[0].Ref)
	}
	for _, after := range []time.Duration{0, time.Minute} {
		readers := []store.ListQuery{{Limit: 1}, {Limit: 1}, {Limit: 1}, {Limit: 1}}
		var before int64
		for page := range jobs {
			for p := range readers {
				list(shards[p], &readers[p])
			}
			if page == 0 {
				before, _ = s.Requests()
			}
			look(after)
		}
		if reads, _ := s.Requests(); reads != before {
			t.Errorf("%v between pages: %d requests to read on, want none", after, reads-before)
		}
		for _, sh := range shards[4:] {
			list(sh, &store.ListQuery{Limit: 1})
		}
		look(0)
		if n := s.InMemory(); n > 8*jobs {
			t.Errorf("%d jobs are in memory after %d partitions were read, of 8 partitions at most", n, partitions)
		}
		look(time.Minute)
		if n := s.InMemory(); n > 4*jobs {
			t.Errorf("%d jobs are in memory a minute later, of 4 partitions at most", n)
		}
	}
}

// during is a bucket in which something happens while snapshots are written.
type during struct {
	bucket.Bucket
	happens atomic.Pointer[func()]
}

func (d *during) Create(ctx context.Context, name string, data []byte) (bucket.Version, error) {
	if f := d.happens.Load(); f != nil && strings.Contains(name, "/snapshots/") {
		(*f)()
	}
	return d.Bucket.Create(ctx, name, data)
}

// TestSpareWhileWritten: a partition that is written while each of its snapshots is written leaves memory with
// the first of them.
func TestSpareWhileWritten(t *testing.T) {
	b := &during{Bucket: bucketOf(t, realserver.StartS3(t, bucketName))}
	o := object.Options{Bucket: b, Prefix: "written", Every: time.Millisecond, Partitions: 2}
	s := servertest.Opened(t, object.Hurried(o, 1000, time.Hour), object.Open)
	sh, _ := servertest.Own(t, s, 1)
	want := []string{"first", "second"}
	for _, name := range want {
		servertest.Want(t, "filled", sh, servertest.Batch(name), store.Applied)
	}
	var snapshots atomic.Int64
	write := func() {
		n := snapshots.Add(1)
		for i := range 2 { // together they are longer than what is at hand of what is in memory
			fill := servertest.Batch(fmt.Sprintf("late-%d-%d", n, i))
			fill.Puts[0].Spec = make([]byte, 600<<10)
			if err := sh.Apply(context.Background(), fill); err != nil {
				t.Error(err)
			}
		}
	}
	b.happens.Store(&write)
	s.Spare(1)
	servertest.Until(t, func() error {
		if n := s.InMemory(); n > 0 && snapshots.Load() < 5 {
			return fmt.Errorf("%d jobs are in memory", n)
		}
		return nil
	})
	b.happens.Store(nil)
	n := snapshots.Load()
	if n != 1 {
		t.Errorf("%d snapshots were written, want 1", n)
	}
	for i := range n {
		want = append(want, fmt.Sprintf("late-%d-0", i+1), fmt.Sprintf("late-%d-1", i+1))
	}
	other := servertest.Opened(t, o, object.Open)
	here, there := servertest.Names(t, sh), servertest.Names(t, servertest.Shard(t, other, 1, store.Term{}))
	for _, names := range [][]string{want, here, there} {
		slices.Sort(names)
	}
	if !slices.Equal(here, want) || !slices.Equal(there, want) {
		t.Errorf("%q, for others %q, want %q", here, there, want)
	}
}

// TestSnapshotNamedUnseen: a partition that is not in memory, and whose snapshot is not there any more since
// the root has named another one, is read by the root: by who reads it, and by who writes it after a snapshot
// of it failed.
func TestSnapshotNamedUnseen(t *testing.T) {
	b := bucketOf(t, realserver.StartS3(t, bucketName))
	for _, fails := range []bool{false, true} {
		o := object.Options{Bucket: b, Prefix: fmt.Sprint("unseen-", fails), Every: time.Millisecond, Partitions: 2}
		s := servertest.Opened(t, object.Hurried(o, 1000, time.Hour), object.Open)
		sh := outOfMemory(t, s, 2, 3)[1]
		servertest.Want(t, "behind it", sh, servertest.Batch("job-03"), store.Applied)
		if err := s.SaveUnseen(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if fails {
			if err := s.SaveAlone(t.Context(), 1); err == nil {
				t.Error("a snapshot was written of what is not there")
			}
		}
		servertest.Want(t, "later", sh, servertest.Batch("job-04"), store.Applied)
		here, want := servertest.Names(t, sh), []string{"job-00", "job-01", "job-02", "job-03", "job-04"}
		slices.Sort(here)
		if !slices.Equal(here, want) {
			t.Errorf("after a snapshot that failed: %v: %q, want %q", fails, here, want)
		}
	}
}
