package repartition_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/embedded"
	"github.com/carillonhq/carillon/server/internal/doctor"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/repartition"
	"github.com/carillonhq/carillon/server/internal/testing/golden"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/memory"
	_ "github.com/carillonhq/carillon/server/store/pebble" // stores of the tests
	_ "github.com/carillonhq/carillon/server/store/postgres"
	_ "github.com/carillonhq/carillon/server/store/redis"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// staying is a store that is there when the command that has filled it has closed it.
type staying struct{ store.Store }

func (staying) Close() error { return nil }

// inMemory makes stores in memory. The first is the only one.
func inMemory() transfer.Open {
	var made store.Store
	return func(_ context.Context, o store.Options) (store.Store, error) {
		if made == nil {
			made = staying{memory.New(memory.Options{Partitions: o.Partitions, MACKey: o.MACKey, Epoch: o.Epoch})}
		}
		return made, nil
	}
}

// older is a store in memory that holds what the golden backup does.
func older(t *testing.T) store.Store {
	t.Helper()
	open := inMemory()
	b := must[[]byte](t)(golden.Backup(1))
	if _, err := transfer.Restore(t.Context(), bytes.NewReader(b), open, nil); err != nil {
		t.Fatal(err)
	}
	return must[store.Store](t)(open(t.Context(), store.Options{}))
}

// seen is what users see of a store, by name.
func seen(t *testing.T, s store.Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	for p := range s.Meta().Partitions {
		sh := must[store.Shard](t)(s.Shard(p, store.Term{}))
		if err := transfer.Contents(t.Context(), sh, func(b *store.Batch) error {
			for _, r := range b.Puts {
				for i := range r.State.Waits {
					r.State.Waits[i].By.Partition = 0
				}
				all[fmt.Sprintf("record %v %d", r.Key, r.Seq)] = string(codec.AppendState(bytes.Clone(r.Spec), &r.State))
			}
			for _, r := range b.Runs {
				r.ID.Partition = 0
				all[fmt.Sprintf("run %v %s %d", r.Key, r.ID, r.Finished)] = string(codec.AppendRun(nil, &r))
			}
			for _, m := range b.MetaRecords {
				if strings.IndexByte("bcelntuq", m.Kind) >= 0 {
					all[fmt.Sprintf("kind %c %q", m.Kind, m.Key)] = string(m.Value)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// sound has the doctor examine a store.
func sound(t *testing.T, s store.Store, what string) {
	t.Helper()
	r := must[*doctor.Report](t)(doctor.Look(t.Context(), s, doctor.Options{Most: 5}))
	if len(r.Kinds) > 0 {
		t.Errorf("%s: %+v", what, r.Findings)
	}
}

// compare compares what users see.
func compare(t *testing.T, what string, was, is map[string]string) {
	t.Helper()
	if maps.Equal(was, is) {
		return
	}
	for name := range was {
		if is[name] != was[name] {
			t.Errorf("%s: %s is %q, and was %q", what, name, is[name], was[name])
		}
	}
	t.Errorf("%s: %d things were there, and %d are", what, len(was), len(is))
}

// TestKinds moves a store from kind to kind, each time to another number of partitions. In the end it has the
// number and the kind that it began with, and a node runs what is due.
func TestKinds(t *testing.T) {
	if testing.Short() {
		t.Skip("two servers, which what is moved does not depend on, are not for -short")
	}
	first := must[string](t)(golden.Store(4, t.TempDir()))
	urls := []string{first, realserver.StartPostgres(t).URL("postgres"),
		"redis://" + realserver.StartRedis(t).Address() + "/0", "pebble:" + filepath.Join(t.TempDir(), "last")}
	open := func(url string) store.Store {
		return must[store.Store](t)(store.Open(t.Context(), url, store.Options{Existing: true}))
	}
	s := open(first)
	was, began := seen(t, s), s.Meta().Partitions
	for i, n := range []int{3, 97, began} {
		to := func(ctx context.Context, o store.Options) (store.Store, error) { return store.Open(ctx, urls[i+1], o) }
		if _, err := transfer.MigrateAs(t.Context(), s, to, repartition.To(n), nil); err != nil {
			t.Fatalf("from %s to %s: %v", urls[i], urls[i+1], err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(urls[i+1])
		if s.Meta().Partitions != n {
			t.Errorf("%s has %d partitions, want %d", urls[i+1], s.Meta().Partitions, n)
		}
		compare(t, urls[i+1], was, seen(t, s))
		sound(t, s, urls[i+1])
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := golden.Serve(ctx, urls[3], golden.Due(), func(*embedded.Scheduler) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s = open(urls[3])
	sound(t, s, "served")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRestore fills a store of another number of partitions with a backup.
func TestRestore(t *testing.T) {
	b := must[[]byte](t)(golden.Backup(1))
	was := older(t)
	for _, n := range []int{1, 5, 200} {
		open := inMemory()
		if _, err := transfer.RestoreAs(t.Context(), bytes.NewReader(b), open, repartition.To(n), nil, nil); err != nil {
			t.Fatal(err)
		}
		s := must[store.Store](t)(open(t.Context(), store.Options{}))
		compare(t, fmt.Sprint(n, " partitions"), seen(t, was), seen(t, s))
		sound(t, s, fmt.Sprint(n, " partitions"))
	}
	once := struct{ *bytes.Buffer }{bytes.NewBuffer(b)}
	if _, err := transfer.RestoreAs(t.Context(), once, inMemory(), repartition.To(3), nil, nil); err == nil {
		t.Error("a backup that can be read only once was restored")
	}
}

// steps counts what is asked of stores. Those beyond the last one fail, as if the process had been killed.
type steps struct {
	last int64
	n    atomic.Int64
}

var errKilled = errors.New("killed")

func (k *steps) step() error {
	if k.n.Add(1) > k.last {
		return errKilled
	}
	return nil
}

// mortal is a store as a process reaches it that is killed.
type mortal struct {
	store.Store
	steps *steps
}

func (m mortal) Close() error { return nil }

// Leaser is for [store.Store].
func (m mortal) Leaser() store.Leaser { return mortalLeaser{m.Store.Leaser(), m.steps} }

// Shard is for [store.Store].
func (m mortal) Shard(p int, term store.Term) (store.Shard, error) {
	s, err := m.Store.Shard(p, term)
	return mortalShard{s, m.steps}, err
}

type mortalLeaser struct {
	store.Leaser
	steps *steps
}

// Claim is for [store.Leaser].
func (l mortalLeaser) Claim(ctx context.Context, node string, ps []int, ttl time.Duration) ([]store.Term, error) {
	if err := l.steps.step(); err != nil {
		return nil, err
	}
	return l.Leaser.Claim(ctx, node, ps, ttl)
}

// Release is for [store.Leaser].
func (l mortalLeaser) Release(ctx context.Context, node string, held []store.Holding) error {
	if err := l.steps.step(); err != nil {
		return err
	}
	return l.Leaser.Release(ctx, node, held)
}

type mortalShard struct {
	store.Shard
	steps *steps
}

// Apply is for [store.Shard].
func (s mortalShard) Apply(ctx context.Context, b *store.Batch) error {
	if err := s.steps.step(); err != nil {
		return err
	}
	return s.Shard.Apply(ctx, b)
}

// TestKilledAtEachStep: wherever the process ends, one of the stores at most can be served, and another process
// ends what was begun, even if it begins with another number first, which is refused.
func TestKilledAtEachStep(t *testing.T) {
	const n = 3
	whole := 0
	for last := int64(0); whole == 0; last++ {
		synctest.Test(t, func(t *testing.T) {
			from, open := older(t), inMemory()
			was, k := seen(t, from), &steps{last: last}
			_, err := transfer.MigrateAs(t.Context(), mortal{from, k}, func(ctx context.Context, o store.Options) (store.Store, error) {
				s, err := open(ctx, o)
				return mortal{s, k}, err
			}, repartition.To(n), nil)
			to := must[store.Store](t)(open(t.Context(), store.Options{Partitions: n, MACKey: from.Meta().MACKey, Epoch: 1 << 40}))
			gone, there := transfer.Usable(t.Context(), from), transfer.Usable(t.Context(), to)
			if gone == nil && there == nil && k.n.Load() > 0 && len(seen(t, to)) > 0 {
				t.Fatalf("killed after %d steps: both stores can be served", last)
			}
			time.Sleep(time.Minute) // the leases end
			if err == nil {
				if whole++; last < 15 {
					t.Errorf("it took %d steps only: is each of them seen?", k.n.Load())
				}
			} else if there != nil || gone == nil {
				if _, err := transfer.MigrateAs(t.Context(), from, open, repartition.To(6), nil); err == nil ||
					!strings.Contains(err.Error(), "3 partitions, and what is to go there is of 6") {
					t.Fatalf("killed after %d steps, and then another number: %v", last, err)
				}
				if _, err := transfer.MigrateAs(t.Context(), from, open, repartition.To(n), nil); err != nil {
					t.Fatalf("killed after %d steps, and again: %v", last, err)
				}
			}
			if err := transfer.Usable(t.Context(), from); !errors.Is(err, store.ErrMoved) {
				t.Errorf("killed after %d steps: the old store: %v", last, err)
			}
			if err := transfer.Usable(t.Context(), to); err != nil {
				t.Errorf("killed after %d steps: the new store: %v", last, err)
			}
			compare(t, fmt.Sprint("killed after steps: ", last), was, seen(t, to))
			sound(t, to, "in the end")
		})
		if t.Failed() {
			return
		}
		if last > 2000 {
			t.Fatal("it never ends")
		}
	}
}

// apply writes to a partition of a store that nobody serves.
func apply(t *testing.T, s store.Store, p int, b *store.Batch) {
	t.Helper()
	term := must[[]store.Term](t)(s.Leaser().Claim(t.Context(), "test", []int{p}, time.Hour))[0]
	if err := must[store.Shard](t)(s.Shard(p, term)).Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := s.Leaser().Release(t.Context(), "test", []store.Holding{{Partition: p, Term: term}}); err != nil {
		t.Fatal(err)
	}
}

// TestRefused: wrong numbers, a batch that is half stored, and what is damaged or in a wrong place are refused
// before anything is written, or at least before anything moves.
func TestRefused(t *testing.T) {
	refused := func(what string, s store.Store, to transfer.Open, n int, want string) {
		t.Helper()
		_, err := transfer.MigrateAs(t.Context(), s, to, repartition.To(n), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
		if err := transfer.Usable(t.Context(), s); err != nil {
			t.Errorf("%s: the old store: %v", what, err)
		}
	}
	never := func(context.Context, store.Options) (store.Store, error) {
		return nil, errors.New("the new store was made")
	}
	s := older(t)
	for _, n := range []int{-1, 0, store.MaxPartitions + 1} {
		refused(fmt.Sprint(n), s, never, n, fmt.Sprintf("%d partitions: a store has 1 to 65535", n))
	}
	refused("the same", s, never, s.Meta().Partitions, "partitions already")
	other := memory.New(memory.Options{Partitions: 4, MACKey: s.Meta().MACKey, Epoch: 1 << 40})
	there := func(context.Context, store.Options) (store.Store, error) { return staying{other}, nil }
	refused("a store of another number", s, there, 5, "has 4 partitions, and what is to go there is of 5")

	key := carillon.Key{Namespace: "default", Name: "of a batch"}
	job := carillon.Job{Namespace: key.Namespace, Name: key.Name, Target: carillon.WorkerQueue("q")}
	apply(t, s, 3, &store.Batch{MetaRecords: []store.MetaRecord{{Kind: store.KindApplied, Key: "B", Value: []byte{3}}}})
	intents := partition.CommitIntents("B", 1, []message.PutRequest{{Job: &job}})
	apply(t, s, 3, &store.Batch{MetaRecords: intents})
	refused("a batch that is half stored", s, never, 5, "1 batches of jobs are decided")
	intents[0].Value = nil
	apply(t, s, 3, &store.Batch{MetaRecords: intents})

	at := store.PartitionOf(key, s.Meta().Partitions)
	wrong := &store.Batch{Puts: []store.Record{{Ref: store.Ref{Key: key}, Spec: []byte{1},
		State: store.State{UID: store.NewUID(key, [8]byte{1})}}}}
	elsewhere := (at + 1) % s.Meta().Partitions
	apply(t, s, elsewhere, wrong)
	refused("a job in a wrong partition", s, inMemory(), 5, "where it does not belong")
	apply(t, s, elsewhere, &store.Batch{Deletes: []store.Ref{{Key: key}}})

	bad := store.MetaRecord{Kind: store.KindBackfill, Key: "x", Value: []byte("no backfill")}
	apply(t, s, 2, &store.Batch{MetaRecords: []store.MetaRecord{bad}})
	refused("a damaged record", s, inMemory(), 5, "examine the store with carillon doctor")
	bad.Value = nil
	apply(t, s, 2, &store.Batch{MetaRecords: []store.MetaRecord{bad}})

	unknown := store.MetaRecord{Kind: 'z', Key: "x", Value: []byte("from the future")}
	apply(t, s, 2, &store.Batch{MetaRecords: []store.MetaRecord{unknown}})
	refused("an unknown kind", s, inMemory(), 5, "does not know the kind")
	unknown.Value = nil
	apply(t, s, 2, &store.Batch{MetaRecords: []store.MetaRecord{unknown}})

	if _, err := transfer.MigrateAs(t.Context(), s, inMemory(), repartition.To(5), nil); err != nil {
		t.Errorf("after all that: %v", err)
	}
}
