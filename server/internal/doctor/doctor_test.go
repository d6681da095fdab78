package doctor_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/embedded"
	"github.com/carillonhq/carillon/server/internal/doctor"
	"github.com/carillonhq/carillon/server/internal/testing/golden"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	_ "github.com/carillonhq/carillon/server/store/pebble"
)

// patient is a store that is damaged through its own interface.
type patient struct {
	*testing.T
	s      store.Store
	shards []store.Shard
}

// key returns the key of a job, and its partition.
func (p *patient) key(namespace, name string) (carillon.Key, int) {
	k := carillon.Key{Namespace: namespace, Name: name}
	return k, store.PartitionOf(k, len(p.shards))
}

// job returns the record of a job of the default namespace.
func (p *patient) job(name string) store.Record {
	p.Helper()
	k, n := p.key("default", name)
	r, err := p.shards[n].Read(p.Context(), []store.Ref{{Key: k}})
	if err != nil || !r[0].Exists {
		p.Fatal(r, err)
	}
	return r[0]
}

// put writes a record where its name says.
func (p *patient) put(r store.Record) {
	p.Helper()
	p.apply(store.PartitionOf(r.Key, len(p.shards)), &store.Batch{Puts: []store.Record{r}})
}

// change changes the state of a job of the default namespace.
func (p *patient) change(name string, f func(s *store.State)) {
	p.Helper()
	r := p.job(name)
	r.Spec = nil
	f(&r.State)
	p.put(r)
}

func (p *patient) apply(partition int, b *store.Batch) {
	p.Helper()
	if err := p.shards[partition].Apply(p.Context(), b); err != nil {
		p.Fatal(err)
	}
}

// meta writes a metadata record.
func (p *patient) meta(partition int, kind byte, key string, value []byte) {
	p.Helper()
	p.apply(partition, &store.Batch{MetaRecords: []store.MetaRecord{{Kind: kind, Key: key, Value: value}}})
}

// metas are all metadata records of a kind of a partition.
func (p *patient) metas(partition int, kind byte) []store.MetaRecord {
	p.Helper()
	found, err := p.shards[partition].MetaRecords(p.Context(), store.MetaQuery{Kind: kind, Limit: 1000})
	if err != nil {
		p.Fatal(err)
	}
	return found
}

// forget removes all metadata records of a kind.
func (p *patient) forget(kind byte) (n int) {
	p.Helper()
	for i := range p.shards {
		for _, r := range p.metas(i, kind) {
			p.meta(i, kind, r.Key, nil)
			n++
		}
	}
	return n
}

// made is the record of a job that was just put, for a worker.
func made(name string, change func(s *store.State)) store.Record {
	k := carillon.Key{Namespace: "default", Name: name}
	far := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	r := store.Record{Ref: store.Ref{Key: k}, State: store.State{UID: store.NewUID(k, [8]byte{9}), Generation: 1,
		Next: far, Due: far, Anchor: far}}
	r.Spec = codec.EncodeSpec(&carillon.Job{Target: carillon.WorkerQueue("golden"), Due: carillon.At(time.Unix(0, far))})
	if change != nil {
		change(&r.State)
	}
	return r
}

// run is a finished run.
func run(partition int, name string, change func(r *store.RunRecord)) *store.Batch {
	k := carillon.Key{Namespace: "default", Name: name}
	r := store.RunRecord{Key: k, ID: store.RunID{Partition: uint16(partition), UID: store.NewUID(k, [8]byte{9}), Scheduled: 1},
		Status: carillon.RunSucceeded, Finished: 1, Expires: math.MaxInt64}
	change(&r)
	return &store.Batch{Runs: []store.RunRecord{r}}
}

// unfinished makes a state one with an unfinished run.
func unfinished(s *store.State) {
	s.Phase, s.Run.Live, s.Run.Due = carillon.PhaseReady, true, s.Next
}

// damages are what can be wrong with any store, each with what makes it.
var damages = []struct {
	kind   doctor.Kind
	mended bool
	do     func(p *patient)
}{
	{doctor.RecordMisplaced, false, func(p *patient) {
		_, n := p.key("default", "stray")
		p.apply((n+1)%len(p.shards), &store.Batch{Puts: []store.Record{made("stray", nil)}})
	}},
	{doctor.RecordMisplaced, false, func(p *patient) { p.change("once", func(s *store.State) { s.UID[0]++ }) }},
	{doctor.RecordInvalid, false, func(p *patient) {
		p.change("once", func(s *store.State) { s.Phase = carillon.PhaseRetrying })
	}},
	{doctor.SpecMissing, false, func(p *patient) {
		r := made("bare", nil)
		r.Spec = nil
		p.put(r)
	}},
	{doctor.SpecInvalid, false, func(p *patient) {
		r := made("odd", nil)
		r.Spec = codec.EncodeSpec(&carillon.Job{Schedule: "0 0 2 * * *", TimeZone: "Mars/Olympus"})
		p.put(r)
	}},
	{doctor.SpecInvalid, false, func(p *patient) {
		r := made("odd", nil)
		r.Spec = []byte{0xff}
		p.put(r)
	}},
	{doctor.EpochAhead, false, func(p *patient) { p.change("once", func(s *store.State) { s.Settled = 1 << 60 }) }},
	{doctor.EpochAhead, false, func(p *patient) {
		k, n := p.key("default", "ahead")
		p.apply(n, run(n, k.Name, func(r *store.RunRecord) { r.Grant.Term.Epoch = 1 << 60 }))
	}},
	{doctor.DueLate, true, func(p *patient) { p.change("once", func(s *store.State) { s.Due = 0 }) }},
	{doctor.DueLate, true, func(p *patient) { p.change("once", func(s *store.State) { s.Due = s.Next + 1 }) }},
	{doctor.DueLate, true, func(p *patient) {
		r := made("ready", unfinished)
		r.State.Due = 0
		p.put(r)
	}},
	{doctor.CountersWrong, true, func(p *patient) { p.change("once", func(s *store.State) { s.Counters.Dropped = 3 }) }},
	{doctor.PendingWithoutJob, false, func(p *patient) {
		r := made("gone", unfinished)
		r.Seq, r.Spec, r.State.Run.Seq = 4, nil, 4
		p.put(r)
	}},
	{doctor.PendingCountWrong, true, func(p *patient) { p.change("cron", func(s *store.State) { s.Pending += 2 }) }},
	{doctor.PendingCountWrong, true, func(p *patient) { p.change("cron", func(s *store.State) { s.Pending = 0 }) }},
	{doctor.BackfillCountWrong, true, func(p *patient) { p.change("once", func(s *store.State) { s.Backfills = 1 }) }},
	{doctor.BackfillCountWrong, true, func(p *patient) { p.change("interval", func(s *store.State) { s.Backfills = 0 }) }},
	{doctor.BackfillWithoutJob, true, func(p *patient) {
		k, n := p.key("default", "gone")
		rec := store.Backfill{Key: k, UID: store.NewUID(k, [8]byte{1}), Seq: 1}
		key := string(append(append([]byte("u"), rec.UID[:]...), 0, 0, 0, 0, 0, 0, 0, 1))
		p.meta(n, store.KindBackfill, key, codec.AppendBackfill(nil, &rec))
	}},
	{doctor.DependencyMissing, true, func(p *patient) { p.forget(store.KindDependency) }},
	{doctor.PermitMissing, false, func(p *patient) {
		p.put(made("held", func(s *store.State) {
			unfinished(s)
			s.Phase, s.Run.Attempt, s.Run.Limited, s.Counters.Fired = carillon.PhaseRunning, 1, true, 1
			s.Run.Lease = s.Next
		}))
	}},
	{doctor.PermitDangling, true, func(p *patient) { p.meta(1, store.KindLimited, "k\x00default\x00gone\x000", []byte{1}) }},
	{doctor.RunMisplaced, false, func(p *patient) {
		k, n := p.key("default", "stray")
		other := (n + 1) % len(p.shards)
		p.apply(other, run(other, k.Name, func(*store.RunRecord) {}))
	}},
	{doctor.RunMisplaced, false, func(p *patient) {
		k, n := p.key("default", "stray")
		p.apply(n, run(n, k.Name, func(r *store.RunRecord) { r.ID.UID[0]++ }))
	}},
	{doctor.RunInvalid, false, func(p *patient) {
		k, n := p.key("default", "odd")
		p.apply(n, run(n, k.Name, func(r *store.RunRecord) { r.Status = carillon.RunRunning }))
	}},
	{doctor.MetaUnreadable, false, func(p *patient) { p.meta(0, store.KindTold, "node/x", []byte{0xff}) }},
	{doctor.MetaUnknown, false, func(p *patient) { p.meta(2, 'Z', "key", []byte{1}) }},
	{doctor.MetaMisplaced, false, func(p *patient) {
		for n := range p.shards {
			if n != store.PartitionOf(carillon.Key{Namespace: "lost"}, len(p.shards)) {
				p.meta(n, store.KindNamespace, "lost", codec.EncodeNamespace(&carillon.Namespace{Strict: true}))
				return
			}
		}
	}},
	{doctor.IntentsIncomplete, false, func(p *patient) {
		spec := codec.EncodeSpec(&carillon.Job{Target: carillon.WorkerQueue("golden")})
		value := append([]byte{2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'n', 1, 'x'}, spec...)
		p.meta(0, store.KindIntent, "batch\x00\x00\x00\x00\x00", value)
	}},
	{doctor.AuditBroken, false, func(p *patient) {
		p.meta(1, store.KindAuditChain, "1-1-f", codec.AppendAuditChain(nil, &store.AuditChain{First: 1, Last: 1}))
	}},
	{doctor.StoreMarked, false, func(p *patient) { p.meta(1, store.KindMove, store.MoveKey, []byte(store.MoveMoved)) }},
}

func opened(t *testing.T, url string) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closed(t *testing.T, s store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// damage does something to a store as one of its nodes could.
func damage(t *testing.T, s store.Store, do func(p *patient)) {
	t.Helper()
	p := &patient{T: t, s: s}
	var held []store.Holding
	for n := range s.Meta().Partitions {
		terms, err := s.Leaser().Claim(t.Context(), "n1", []int{n}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, store.Holding{Partition: n, Term: terms[0]})
		shard, err := s.Shard(n, terms[0])
		if err != nil {
			t.Fatal(err)
		}
		p.shards = append(p.shards, shard)
	}
	do(p)
	if err := s.Leaser().Release(t.Context(), "n1", held); err != nil {
		t.Fatal(err)
	}
}

// kinds are what an examination finds.
func kinds(t *testing.T, s store.Store,
	look func(context.Context, store.Store, doctor.Options) (*doctor.Report, error)) map[doctor.Kind]doctor.Tally {
	t.Helper()
	r, err := look(t.Context(), s, doctor.Options{Most: 5})
	if err != nil {
		t.Fatal(err)
	}
	return r.Kinds
}

// TestDamages: what is wrong is named and nothing else, what can be mended is, once, and a node serves it.
func TestDamages(t *testing.T) {
	for _, d := range damages {
		t.Run(string(d.kind), func(t *testing.T) {
			t.Parallel()
			url, err := golden.Store(4, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			s := opened(t, url)
			damage(t, s, d.do)
			for range 2 {
				if got := kinds(t, s, doctor.Look); !maps.Equal(got, map[doctor.Kind]doctor.Tally{d.kind: {Found: 1}}) {
					t.Fatalf("found: %v", got)
				}
			}
			if d.kind == doctor.StoreMarked {
				if _, err := doctor.Mend(t.Context(), s, doctor.Options{}); !errors.Is(err, store.ErrMoved) {
					t.Errorf("it was mended: %v", err)
				}
				closed(t, s)
				return
			}
			left := map[doctor.Kind]doctor.Tally{d.kind: {Found: 1}}
			if d.mended {
				if got := kinds(t, s, doctor.Mend)[d.kind]; got != (doctor.Tally{Found: 1, Mended: 1}) {
					t.Errorf("mended: %v", got)
				}
				left = map[doctor.Kind]doctor.Tally{}
			}
			if got := kinds(t, s, doctor.Mend); !maps.Equal(got, left) {
				t.Errorf("afterwards: %v", got)
			}
			closed(t, s)
			if d.mended {
				served(t, url)
			}
		})
	}
}

// served has a node run what is due.
func served(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := golden.Serve(ctx, url, golden.Due(), func(*embedded.Scheduler) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s := opened(t, url)
	if got := kinds(t, s, doctor.Look); len(got) > 0 {
		t.Errorf("after a node: %v", got)
	}
	closed(t, s)
}

// TestParkedQueuesAreNamed: the runs of several queues were parked.
func TestParkedQueuesAreNamed(t *testing.T) {
	url, err := golden.Store(4, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := opened(t, url)
	var queues int
	damage(t, s, func(p *patient) { queues = p.forget(store.KindParked) })
	want := map[doctor.Kind]doctor.Tally{doctor.ParkedMissing: {Found: int64(queues), Mended: int64(queues)}}
	if got := kinds(t, s, doctor.Mend); queues == 0 || !maps.Equal(got, want) {
		t.Errorf("of %d: %v", queues, got)
	}
	closed(t, s)
	served(t, url)
}

// TestMendingIsCutOff: wherever it is, another one goes on, and what is left at the end is nothing.
func TestMendingIsCutOff(t *testing.T) {
	url, err := golden.Store(4, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cut := 0
	for left := 1; ; left++ {
		s := opened(t, url)
		if left == 1 {
			damage(t, s, func(p *patient) {
				p.forget(store.KindParked)
				p.forget(store.KindDependency)
				p.change("once", func(s *store.State) { s.Due, s.Pending, s.Counters.Dead = 0, 3, 8 })
				p.change("cron", func(s *store.State) { s.Pending = 9 })
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		told := 0
		_, err := doctor.Mend(ctx, s, doctor.Options{Progress: func(*doctor.Report) {
			if told++; told == left {
				cancel()
			}
		}})
		cancel()
		closed(t, s)
		if err == nil {
			break
		}
		if cut++; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if cut < 3 {
		t.Errorf("it was cut off %d times only", cut)
	}
	served(t, url)
}

// TestEachKindIsMade: there is no kind that no test has seen.
func TestEachKindIsMade(t *testing.T) {
	made := []doctor.Kind{doctor.ParkedMissing, doctor.Undecrypted}
	for _, d := range damages {
		made = append(made, d.kind)
	}
	for _, k := range doctor.Kinds()[doctor.EngineKinds:] {
		if !slices.Contains(made, k.Kind) {
			t.Errorf("nothing makes %s", k.Kind)
		}
	}
}

// TestALivingNodeIsNotDisturbed: while one lives nothing is looked at, and nothing taken from it.
func TestALivingNodeIsNotDisturbed(t *testing.T) {
	url, err := golden.Store(4, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := opened(t, url)
	defer closed(t, s)
	damage(t, s, func(p *patient) {
		if err := s.Leaser().Join(t.Context(), store.Member{ID: "n1", Nonce: 7, Capacity: 1}, time.Minute); err != nil {
			t.Fatal(err)
		}
		for _, look := range []func(context.Context, store.Store, doctor.Options) (*doctor.Report, error){doctor.Look, doctor.Mend} {
			if r, err := look(t.Context(), s, doctor.Options{}); err == nil {
				t.Errorf("a node lives: %+v", r)
			}
		}
		p.change("once", func(*store.State) {}) // its term is in force
	})
}

// TestANodeThatBeginsMeanwhile: what was found may not be so any more.
func TestANodeThatBeginsMeanwhile(t *testing.T) {
	url, err := golden.Store(4, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := opened(t, url)
	defer closed(t, s)
	begun := false
	_, err = doctor.Look(t.Context(), s, doctor.Options{Progress: func(*doctor.Report) {
		if !begun {
			begun = true
			damage(t, s, func(*patient) {})
		}
	}})
	if !errors.Is(err, doctor.ErrMeanwhile) {
		t.Error(err)
	}
}

// TestMostOfAKind: findings beyond the limit are counted only.
func TestMostOfAKind(t *testing.T) {
	url, err := golden.Store(4, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := opened(t, url)
	defer closed(t, s)
	damage(t, s, func(p *patient) {
		for n := range byte(7) {
			p.meta(0, 'Z', string([]byte{n}), []byte{1})
		}
		p.meta(0, 'Y', "", []byte{1})
	})
	r, err := doctor.Look(t.Context(), s, doctor.Options{Most: 3})
	if err != nil || len(r.Findings) != 3 || r.Kinds[doctor.MetaUnknown].Found != 8 || r.Left() != 8 {
		t.Errorf("%+v, %v", r, err)
	}
}
