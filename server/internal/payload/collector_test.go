package payload_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/payload"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// Where a reference can be.
type where int

const (
	intent where = iota // in partition 1, of a batch that is decided
	job                 // in partition 0, like those that follow
	pending
	dead
	nowhere
)

// next are the places that a reference can move to at once.
var next = map[where][]where{intent: {job}, job: {pending}, pending: {dead}, dead: {pending, job}}

// records are the store of the jobs, with one reference. It moves before some reads.
type records struct {
	at    where
	ref   carillon.PayloadRef
	reads int
	moves map[int]where // before which read it moves, and where to
	fail  error         // of the last kind of read
}

func (r *records) Meta() store.Meta { return store.Meta{Partitions: 2} }

func (r *records) Shard(p int, _ store.Term) (store.Shard, error) {
	return &shard{records: r, number: p}, nil
}

// shard is a partition of records. Other calls panic.
type shard struct {
	store.Shard
	records *records
	number  int
}

// read reports whether the reference is there.
func (s *shard) read(number int, at ...where) bool {
	r := s.records
	if to, moves := r.moves[r.reads]; moves {
		r.at = to
	}
	r.reads++
	return s.number == number && slices.Contains(at, r.at)
}

func (s *shard) spec() []byte {
	return codec.EncodeSpec(&carillon.Job{Namespace: "ns", Name: "x", Data: carillon.Data{Ref: &s.records.ref}})
}

func (s *shard) List(_ context.Context, q store.ListQuery) ([]store.Record, error) {
	if !q.Pending {
		return nil, errors.New("a list without pending runs")
	}
	here := s.read(0, job, pending)
	if !here || q.After != "" {
		return nil, nil
	}
	r := store.Record{Ref: store.Ref{Key: carillon.Key{Namespace: "ns", Name: "x"}}, Exists: true, Spec: s.spec()}
	if s.records.at == pending {
		r.Seq, r.State.OwnSpec = 1, true
	}
	return []store.Record{r}, nil
}

// mostAtOnce is how many records may be read at once that come with their payloads.
const mostAtOnce = 8

func (s *shard) Runs(_ context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	if q.Limit < 1 || q.Limit > mostAtOnce {
		return nil, errors.New("a page of runs may be too large")
	}
	if !s.read(0, dead) {
		return nil, s.records.fail
	}
	return []store.RunRecord{{Key: carillon.Key{Namespace: "ns", Name: "x"}, Spec: s.spec()}}, nil
}

func (s *shard) MetaRecords(_ context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	if q.Limit < 1 || q.Limit > mostAtOnce {
		return nil, errors.New("a page of intents may be too large")
	}
	if !s.read(1, intent) || q.Kind != store.KindIntent {
		return nil, nil
	}
	j := carillon.Job{Namespace: "ns", Name: "x", Data: carillon.Data{Ref: &s.records.ref}}
	return partition.CommitIntents("batch", 0, []message.PutRequest{{Job: &j}}), nil
}

// collected is a store with one object, on a day on which it is old enough.
func collected(t *testing.T) (s *payload.Store, ref carillon.PayloadRef) {
	t.Helper()
	c := newClock()
	s = open(t, payload.Options{URL: "file:" + t.TempDir(), Now: c.now})
	ref, err := s.PutBytes(t.Context(), "ns", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	c.pass(3)
	return s, ref
}

// readsOfCollection is how many reads of the store two looks make: of the intents of two partitions each, and
// twice of the jobs and of the history of each.
const readsOfCollection = 2 * (2 + 2*2*2)

// TestWhatIsReferredToIsKept wherever the reference is, and also if it moves up to three times meanwhile,
// before whichever reads.
func TestWhatIsReferredToIsKept(t *testing.T) {
	s, ref := collected(t)
	tried := 0
	var try func(at, first where, moves map[int]where, from int)
	try = func(at, first where, moves map[int]where, from int) {
		tried++
		r := &records{at: first, ref: ref, moves: moves}
		if c, err := s.Collect(t.Context(), r); err != nil || c.Removed != 0 || c.Examined != 1 {
			t.Fatalf("first in %d, moves %v: %+v, %v", first, moves, c, err)
		}
		if len(moves) == 3 {
			return
		}
		for read := from; read < readsOfCollection; read++ {
			for _, to := range next[at] {
				moves[read] = to
				try(to, first, moves, read+1)
				delete(moves, read)
			}
		}
	}
	for _, first := range []where{intent, job, pending, dead} {
		try(first, first, map[int]where{}, 0)
	}
	if _, err := s.Ensure(t.Context(), "ns", ref); err != nil {
		t.Error(err)
	}
	t.Logf("%d ways", tried)
}

// TestWhatNothingRefersToIsRemoved, once it is old enough, and only if all records could be read.
func TestWhatNothingRefersToIsRemoved(t *testing.T) {
	for name, url := range places(t) {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			s := open(t, payload.Options{URL: url, Now: c.now})
			unused, err := s.PutBytes(t.Context(), "ns", some(1000))
			if err != nil {
				t.Fatal(err)
			}
			used, err := s.PutBytes(t.Context(), "ns", some(10))
			if err != nil {
				t.Fatal(err)
			}
			collect := func(r *records, want carillon.PayloadCollection) {
				t.Helper()
				if got, err := s.Collect(t.Context(), r); got != want || (err != nil) != (r.fail != nil) {
					t.Errorf("%+v, %v; want %+v", got, err, want)
				}
			}
			for range 3 {
				collect(&records{at: job, ref: used}, carillon.PayloadCollection{})
				c.pass(1)
			}
			collect(&records{at: job, ref: used, fail: errors.New("damaged")}, carillon.PayloadCollection{Examined: 2})
			collect(&records{at: job, ref: used}, carillon.PayloadCollection{Examined: 2, Removed: 1, Bytes: 1000})
			if _, err := read(t.Context(), s, "ns", unused); !errors.Is(err, carillon.NotFound) {
				t.Errorf("what was not used: %v", err)
			}
			if got, err := read(t.Context(), s, "ns", used); err != nil || len(got) != 10 {
				t.Errorf("what is used: %d bytes, %v", len(got), err)
			}
			collect(&records{at: nowhere}, carillon.PayloadCollection{Examined: 1, Removed: 1, Bytes: 10})
		})
	}
}

// TestOthersAreLeftAlone: what is no payload in that place, and what was written a short while ago, whatever
// the clock of its writer said.
func TestOthersAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	early := newClock()
	early.pass(-30)
	wrong := open(t, payload.Options{URL: "file:" + dir, Now: early.now})
	if _, err := wrong.PutBytes(t.Context(), "ns", []byte("by a clock that is wrong")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"payloads/readme", "payloads/0000/ns/x", "else/2001-01-01/ns/x"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600),
			os.Chtimes(path, time.Time{}, time.Now().AddDate(-1, 0, 0))); err != nil {
			t.Fatal(err)
		}
	}
	before := len(files(t, dir))
	s := open(t, payload.Options{URL: "file:" + dir})
	if c, err := s.Collect(t.Context(), &records{at: nowhere}); err != nil || c != (carillon.PayloadCollection{}) {
		t.Errorf("%+v, %v", c, err)
	}
	if after := len(files(t, dir)); after != before {
		t.Errorf("%d files are left of %d", after, before)
	}
}

// TestManyObjectsAreGoneThrough in all namespaces, in whichever order their names are.
func TestManyObjectsAreGoneThrough(t *testing.T) {
	c := newClock()
	s := open(t, payload.Options{URL: "file:" + t.TempDir(), Now: c.now})
	n := 0
	for _, namespace := range []string{"a", "a-b", "A", "a0", "b"} {
		for i := range 20 {
			if _, err := s.PutBytes(t.Context(), namespace, fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	c.pass(4)
	for _, want := range []int{n, 0} {
		got, err := s.Collect(t.Context(), &records{at: nowhere})
		if err != nil || got.Removed != uint64(want) {
			t.Errorf("%+v, %v; want %d removed", got, err, want)
		}
	}
}

// TestOneNodeCollectsOnceADay: the one in charge, an hour after it is; and an hour after a failure.
func TestOneNodeCollectsOnceADay(t *testing.T) {
	var done, failed, inCharge atomic.Int64
	dir := filepath.Join(t.TempDir(), "payloads")
	s := open(t, payload.Options{URL: "file:" + dir, Count: payload.Counts{
		Collected: func(outcome string, _ uint64) {
			if outcome == payload.Done {
				done.Add(1)
			} else {
				failed.Add(1)
			}
		}}})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Keep(ctx, func() bool { return inCharge.Load() == 1 }, &records{at: nowhere}) })
		for _, step := range []struct {
			inCharge int64
			pass     time.Duration
			done     int64
		}{
			{0, 48 * time.Hour, 0}, {1, 58 * time.Minute, 0}, {1, 5 * time.Minute, 1}, {1, 23 * time.Hour, 1},
			{1, 2 * time.Hour, 2}, {0, 48 * time.Hour, 2}, {1, 58 * time.Minute, 2}, {1, 5 * time.Minute, 3},
		} {
			inCharge.Store(step.inCharge)
			<-time.After(step.pass)
			if got := done.Load(); got != step.done {
				t.Errorf("after %v: %d collections, want %d", step.pass, got, step.done)
			}
		}
		if err := os.Rename(dir, dir+"-away"); err != nil {
			t.Error(err)
		}
		<-time.After(24*time.Hour + 3*time.Hour)
		if got := failed.Load(); got < 3 || got > 4 || done.Load() != 3 {
			t.Errorf("while the folder is away: %d failures in 3 h", got)
		}
		cancel()
		running.Wait()
	})
}
