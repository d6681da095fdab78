package transfer_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	_ "github.com/carillonhq/carillon/server/store/etcd" // stores of the tests
	_ "github.com/carillonhq/carillon/server/store/gcs"
	"github.com/carillonhq/carillon/server/store/memory"
	_ "github.com/carillonhq/carillon/server/store/pebble"
	_ "github.com/carillonhq/carillon/server/store/postgres"
	_ "github.com/carillonhq/carillon/server/store/redis"
)

const partitions = 5

// opener opens the store of a URL.
func opener(url string) transfer.Open {
	return func(ctx context.Context, o store.Options) (store.Store, error) { return store.Open(ctx, url, o) }
}

// at opens the store of a URL, which the test closes.
func at(t *testing.T, url string) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{Partitions: partitions})
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

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// whole are all partitions.
func whole() (out []int) {
	for p := range partitions {
		out = append(out, p)
	}
	return out
}

// used plays some terms of a node, the last of which writes, and leaves in order.
func play(t *testing.T, s store.Store, terms int, write func(p int, sh store.Shard)) {
	t.Helper()
	for n := range terms {
		var held []store.Holding
		for p, term := range must[[]store.Term](t)(s.Leaser().Claim(t.Context(), "n1", whole(), time.Minute)) {
			held = append(held, store.Holding{Partition: p, Term: term})
			if n == terms-1 {
				write(p, must[store.Shard](t)(s.Shard(p, term)))
			}
		}
		if err := s.Leaser().Release(t.Context(), "n1", held); err != nil {
			t.Fatal(err)
		}
	}
}

// things writes jobs, pending runs, finished runs and metadata records of several namespaces, and counts
// them.
func things(t *testing.T, dice *rand.Rand, all *transfer.Counts) func(p int, sh store.Shard) {
	return func(p int, sh store.Shard) {
		t.Helper()
		for i := range 300 {
			k := carillon.Key{Namespace: fmt.Sprint("ns-", dice.IntN(4)), Name: fmt.Sprintf("job-%d-%d", p, i)}
			spec := bytes.Repeat([]byte{byte(i)}, 1<<dice.IntN(16))
			b := store.Batch{Puts: []store.Record{{Ref: store.Ref{Key: k}, Spec: spec,
				State: store.State{UID: store.NewUID(k, [8]byte{byte(i)}), Generation: 1, Due: int64(i), Settled: 3}}}}
			for seq := range uint64(dice.IntN(3)) {
				r := store.Record{Ref: store.Ref{Key: k, Seq: seq + 1}, State: store.State{Due: int64(seq)}}
				if dice.IntN(2) == 0 {
					r.Spec, r.State.OwnSpec = spec, true
				}
				b.Puts = append(b.Puts, r)
			}
			for n := range dice.IntN(4) {
				b.Runs = append(b.Runs, store.RunRecord{Key: k, Finished: int64(n + 1), Expires: int64(n + 2),
					Status:   []carillon.RunStatus{carillon.RunSucceeded, carillon.RunFailed, carillon.RunDead}[dice.IntN(3)],
					ID:       store.RunID{Partition: uint16(p), UID: b.Puts[0].State.UID, Scheduled: int64(n)},
					Response: []byte("answer")})
			}
			b.MetaRecords = []store.MetaRecord{{Kind: store.KindQueue, Key: k.Name, Value: []byte{1}},
				{Kind: store.KindTold, Key: k.Name, Value: []byte{}}}
			if i == 0 { // the only one of its kind, with an empty key
				b.MetaRecords = append(b.MetaRecords, store.MetaRecord{Kind: store.KindWatched, Value: []byte{1}})
			}
			if err := sh.Apply(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			all.Records += int64(len(b.Puts))
			all.Runs += int64(len(b.Runs))
			all.Meta += int64(len(b.MetaRecords))
		}
	}
}

// TestMigrateThroughKinds moves a store from kind to kind: each time the digest is the same.
func TestMigrateThroughKinds(t *testing.T) {
	if testing.Short() {
		t.Skip("five servers, which what is moved does not depend on, are not for -short")
	}
	dir := t.TempDir()
	urls := []string{"pebble:" + filepath.Join(dir, "first"), realserver.StartPostgres(t).URL("postgres"),
		"redis://" + realserver.StartRedis(t).Address() + "/0", "etcd://" + realserver.StartEtcd(t).Address(),
		"gs://transfer/x?anonymous=yes&commit-every=1ms&endpoint=" + realserver.StartGCS(t, "transfer").Endpoint(),
		"pebble:" + filepath.Join(dir, "last")}
	s := at(t, urls[0])
	var all transfer.Counts
	play(t, s, 2, things(t, rand.New(rand.NewPCG(1, 2)), &all))
	var was transfer.Result
	for i, url := range urls[1:] {
		before := epoch(t, s)
		for range 2 { // the first time nothing is made
			if _, err := store.Open(t.Context(), url, store.Options{Existing: true}); !errors.Is(err, store.ErrNoStore) {
				t.Fatalf("%s, of which there is none: %v", url, err)
			}
		}
		result, err := transfer.Migrate(t.Context(), s, opener(url), nil)
		if err != nil {
			t.Fatalf("from %s to %s: %v", urls[i], url, err)
		}
		if result.Counts != all || i > 0 && result != was {
			t.Errorf("from %s to %s: %+v, want %+v", urls[i], url, result, was)
		}
		if s = at(t, url); epoch(t, s) <= before {
			t.Errorf("from %s to %s: an epoch of %d comes after one of %d", urls[i], url, epoch(t, s), before)
		}
		was = result
	}
}

// epoch is the greatest of any term.
func epoch(t *testing.T, s store.Store) (most uint64) {
	t.Helper()
	for _, o := range must[[]store.Owner](t)(s.Leaser().Owners(t.Context())) {
		most = max(most, o.Term.Epoch)
	}
	return most
}

// TestMigrate moves a store to another: everything is there, the key too, no term comes again, and what was
// moved is not served any more.
func TestMigrate(t *testing.T) {
	dir := t.TempDir()
	first, last := "pebble:"+filepath.Join(dir, "first"), "pebble:"+filepath.Join(dir, "last")
	s := at(t, first)
	var all transfer.Counts
	play(t, s, 7, things(t, rand.New(rand.NewPCG(1, 2)), &all))
	was := epoch(t, s)
	result := must[transfer.Result](t)(transfer.Migrate(t.Context(), s, opener(last), nil))
	if result.Counts != all {
		t.Errorf("%+v were moved of %+v", result.Counts, all)
	}
	if err := transfer.Usable(t.Context(), s); !errors.Is(err, store.ErrMoved) {
		t.Errorf("what was moved: %v", err)
	}
	again := opener("pebble:" + filepath.Join(dir, "again"))
	if _, err := transfer.Migrate(t.Context(), s, again, nil); !errors.Is(err, store.ErrMoved) {
		t.Errorf("what was moved is moved again: %v", err)
	}
	there := at(t, last)
	if err := transfer.Usable(t.Context(), there); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(there.Meta().MACKey, s.Meta().MACKey) {
		t.Error("another key")
	}
	if is := epoch(t, there); is <= was {
		t.Errorf("an epoch of %d comes after one of %d", is, was)
	}
}

// TestBackup: what a store holds goes to a file and from there into another one, and back the same digest
// comes.
func TestBackup(t *testing.T) {
	dir := t.TempDir()
	s := at(t, "pebble:"+filepath.Join(dir, "first"))
	var all transfer.Counts
	play(t, s, 2, things(t, rand.New(rand.NewPCG(3, 4)), &all))
	var f bytes.Buffer
	taken := time.Unix(1e9, 0).UTC()
	wrote := must[transfer.Result](t)(transfer.Backup(t.Context(), s, &f, taken, nil))
	if err := transfer.Usable(t.Context(), s); err != nil || wrote.Counts != all {
		t.Errorf("after a backup of %+v, with %+v: %v", all, wrote.Counts, err)
	}
	head, when, read, err := transfer.Verify(t.Context(), bytes.NewReader(f.Bytes()), nil)
	if err != nil || read != wrote || head.Partitions != partitions || !when.Equal(taken) {
		t.Errorf("%+v, %v, %+v, %v; written were %+v", head, when, read, err, wrote)
	}
	last := opener("pebble:" + filepath.Join(dir, "last"))
	restored := must[transfer.Result](t)(transfer.Restore(t.Context(), bytes.NewReader(f.Bytes()), last, nil))
	if restored != wrote {
		t.Errorf("restored %+v, written were %+v", restored, wrote)
	}
	if _, err := transfer.Restore(t.Context(), bytes.NewReader(f.Bytes()), last, nil); err == nil {
		t.Error("a backup was restored over a store")
	}

	t.Run("damaged", func(t *testing.T) {
		dice, damages := rand.New(rand.NewPCG(5, 6)), 60
		if testing.Short() {
			damages = 9
		}
		for i := range damages {
			b := slices.Clone(f.Bytes())
			switch i % 3 {
			case 0:
				b = b[:dice.IntN(len(b))]
			case 1:
				b[dice.IntN(len(b)-10)+10] ^= 1 << dice.IntN(8) // behind the head of gzip, where nothing is said
			default:
				b = append(b, byte(i))
			}
			if i%3 == 1 && bytes.Equal(unpacked(b), unpacked(f.Bytes())) {
				continue // it was a bit that says nothing, such as one that fills a byte
			}
			if _, _, _, err := transfer.Verify(t.Context(), bytes.NewReader(b), nil); !errors.Is(err, transfer.ErrDamaged) {
				t.Errorf("damage %d: %v", i, err)
			}
		}
	})

	t.Run("ends in the middle", func(t *testing.T) {
		half := opener("pebble:" + filepath.Join(dir, "half"))
		part := bytes.NewReader(f.Bytes()[:f.Len()/2])
		if _, err := transfer.Restore(t.Context(), part, half, nil); !errors.Is(err, transfer.ErrDamaged) {
			t.Fatalf("half a backup: %v", err)
		}
		func() {
			s := must[store.Store](t)(half(t.Context(), store.Options{}))
			defer s.Close()
			if err := transfer.Usable(t.Context(), s); !errors.Is(err, store.ErrArriving) {
				t.Errorf("half a store: %v", err)
			}
		}()
		if again := must[transfer.Result](t)(transfer.Restore(t.Context(), bytes.NewReader(f.Bytes()), half, nil)); again != wrote {
			t.Errorf("again: %+v, written were %+v", again, wrote)
		}
	})
}

// unpacked is what gzip has packed; nil if it is damaged.
func unpacked(b []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	out, err := io.ReadAll(r)
	if err != nil {
		return nil
	}
	return out
}

// TestRefused: a store moves only when nobody else writes to it, and only to where there is none.
func TestRefused(t *testing.T) {
	nowhere := opener("pebble:" + filepath.Join(t.TempDir(), "nowhere"))
	refused := func(what string, s store.Store, to transfer.Open, want string) {
		t.Helper()
		if _, err := transfer.Migrate(t.Context(), s, to, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	fresh := func() *memory.Store { return memory.New(memory.Options{Partitions: partitions}) }
	refused("nobody was ever there", fresh(), nowhere, "no node has ever used")

	s := fresh()
	play(t, s, 1, func(int, store.Shard) {})
	if err := s.Leaser().Join(t.Context(), store.Member{ID: "n1", Nonce: 1, Capacity: 1}, time.Minute); err != nil {
		t.Fatal(err)
	}
	refused("a node lives", s, nowhere, "n1")

	s = fresh()
	play(t, s, 1, func(int, store.Shard) {})
	_ = must[[]store.Term](t)(s.Leaser().Claim(t.Context(), "n1", []int{2}, time.Minute))
	refused("a node was killed just now", s, nowhere, "partition 2 is held by another process")

	s = fresh()
	play(t, s, 1, func(int, store.Shard) {})
	occupied := fresh()
	play(t, occupied, 1, func(int, store.Shard) {})
	there := func(context.Context, store.Options) (store.Store, error) { return occupied, nil }
	refused("another store", s, there, "another store already")
	same := memory.New(memory.Options{Partitions: partitions, MACKey: s.Meta().MACKey, Epoch: 10})
	there = func(context.Context, store.Options) (store.Store, error) { return same, nil }
	refused("the same key, a node lives", s, func(context.Context, store.Options) (store.Store, error) {
		other := memory.New(memory.Options{Partitions: partitions, MACKey: s.Meta().MACKey})
		return other, other.Leaser().Join(t.Context(), store.Member{ID: "n1", Nonce: 1}, time.Minute)
	}, "n1")
	play(t, same, 1, func(p int, sh store.Shard) {
		m := store.MetaRecord{Kind: store.KindTerms, Key: "terms", Value: []byte{1}}
		if err := sh.Apply(t.Context(), &store.Batch{MetaRecords: []store.MetaRecord{m}}); err != nil {
			t.Fatal(err)
		}
	})
	refused("the same key, in use", s, there, "in use already")

	var all transfer.Counts
	play(t, s, 1, things(t, rand.New(rand.NewPCG(1, 2)), &all))
	refused("the store itself, by another URL", s, func(context.Context, store.Options) (store.Store, error) {
		return open{s}, nil
	}, "is held by another process")
	if _, err := transfer.Migrate(t.Context(), s, nowhere, nil); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

// open is a store that the one who closes it did not open.
type open struct{ store.Store }

func (open) Close() error { return nil }

// leaving is a store of which another process takes a partition as soon as everything was read, and what it
// reads then.
type leaving struct {
	store.Store
	reads atomic.Int64
}

func (l *leaving) Shard(p int, term store.Term) (store.Shard, error) {
	sh, err := l.Store.Shard(p, term)
	return leavingShard{sh, l}, err
}

type leavingShard struct {
	store.Shard
	l *leaving
}

func (s leavingShard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	got, err := s.Shard.MetaRecords(ctx, q)
	if q.Kind == 'z' && s.l.reads.Add(1) == partitions { // the last read of the last partition
		holdings := []store.Holding{}
		for _, o := range must2(s.l.Leaser().Owners(ctx)) {
			holdings = append(holdings, store.Holding{Partition: o.Partition, Term: o.Term})
			must0(s.l.Leaser().Release(ctx, o.Node, []store.Holding{holdings[len(holdings)-1]}))
		}
		must2(s.l.Leaser().Claim(ctx, "waiting", []int{2}, time.Minute))
	}
	return got, err
}

func must0(err error) {
	if err != nil {
		panic(err)
	}
}

func must2[T any](v T, err error) T {
	must0(err)
	return v
}

// TestMigrateAgain: what an attempt has begun that did not come to its end, another one ends, though each
// opens the store again, which makes the epochs of Pebble greater by far.
func TestMigrateAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	dir := t.TempDir()
	from := "pebble:" + filepath.Join(dir, "from")
	to := opener(realserver.StartPostgres(t, realserver.Volatile()...).URL("postgres"))
	var all transfer.Counts
	attempt := func(f func(s store.Store)) {
		t.Helper()
		s := must[store.Store](t)(store.Open(t.Context(), from, store.Options{Partitions: partitions}))
		defer s.Close()
		f(s)
	}
	attempt(func(s store.Store) { play(t, s, 2, things(t, rand.New(rand.NewPCG(1, 2)), &all)) })
	for range 3 {
		attempt(func(s store.Store) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if _, err := transfer.Migrate(ctx, s, to, func(c transfer.Counts) {
				if c.Records > 500 {
					cancel()
				}
			}); !errors.Is(err, context.Canceled) {
				t.Errorf("what was given up: %v", err)
			}
			if err := transfer.Usable(t.Context(), s); err != nil {
				t.Errorf("the store that was not moved: %v", err)
			}
		})
	}
	attempt(func(s store.Store) {
		if result := must[transfer.Result](t)(transfer.Migrate(t.Context(), s, to, nil)); result.Counts != all {
			t.Errorf("%+v were moved of %+v", result.Counts, all)
		}
	})
}

// TestTakenMeanwhile: whoever has taken a partition while the store was read keeps it, and what was copied
// counts for nothing.
func TestTakenMeanwhile(t *testing.T) {
	s := memory.New(memory.Options{Partitions: partitions})
	play(t, s, 1, func(int, store.Shard) {})
	var f bytes.Buffer
	if _, err := transfer.Backup(t.Context(), &leaving{Store: s}, &f, time.Now(), nil); err == nil ||
		!strings.Contains(err.Error(), "another process has taken partitions") {
		t.Errorf("a backup: %v", err)
	}
	if _, _, _, err := transfer.Verify(t.Context(), &f, nil); !errors.Is(err, transfer.ErrDamaged) {
		t.Errorf("what was written: %v", err)
	}
	to := opener("pebble:" + filepath.Join(t.TempDir(), "to"))
	s = memory.New(memory.Options{Partitions: partitions})
	play(t, s, 1, func(int, store.Shard) {})
	if _, err := transfer.Migrate(t.Context(), &leaving{Store: s}, to, nil); err == nil {
		t.Error("it was moved")
	}
	if err := transfer.Usable(t.Context(), s); err != nil {
		t.Errorf("the store that was not moved: %v", err)
	}
	there := must[store.Store](t)(to(t.Context(), store.Options{}))
	defer there.Close()
	if err := transfer.Usable(t.Context(), there); !errors.Is(err, store.ErrArriving) {
		t.Errorf("the store that it was moved to: %v", err)
	}
}
