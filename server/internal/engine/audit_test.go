package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/memory"
)

// by is a context in which somebody makes a call.
func by(principal, action, resource string) (context.Context, *audit.Call) {
	c := audit.NewCall(&store.AuditEntry{Principal: principal, Action: action, Namespace: "default",
		Resource: resource})
	return audit.With(context.Background(), c), c
}

func (n *node) audited(q carillon.AuditQuery) (all []carillon.AuditEntry) {
	n.t.Helper()
	for {
		page, err := n.ListAudit(context.Background(), q)
		if err != nil {
			n.t.Fatal(err)
		}
		all = append(all, page.Entries...)
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return all
		}
	}
}

// wantWhole fails if a chain is broken, and returns the heads.
func (n *node) wantWhole() (heads []carillon.AuditHead) {
	n.t.Helper()
	chains, err := n.VerifyAudit(context.Background(), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	for i := range chains {
		if c := &chains[i]; c.Broken != "" {
			n.t.Errorf("chain %s: %s", c.Chain, c.Broken)
		} else if c.Seq > 0 {
			heads = append(heads, c.AuditHead)
		}
	}
	return heads
}

// TestAChangeHasItsEntry: a call that changes something leaves one entry, one that is refused none; the
// entry is there after a restart, and the chain goes on.
func TestAChangeHasItsEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Partitions: 4})
		n := start(t, s)
		key := carillon.Key{Name: "a"}
		for range 2 {
			ctx, c := by("key x", "PutJob", "")
			if _, err := n.PutJob(ctx, hourly1("a")); err != nil || !c.IsStored() {
				t.Fatal(err, c.IsStored())
			}
			ctx, c = by("key x", "DeleteJob", "nothere")
			if _, err := n.DeleteJob(ctx, carillon.Key{Name: "nothere"}); err == nil || c.IsStored() {
				t.Error("a call that changes nothing is recorded as one that has")
			}
			ctx, c = by("key y", "PauseJob", "a")
			if _, err := n.SetPaused(ctx, key, carillon.PauseOptions{Paused: true}); err != nil || !c.IsStored() {
				t.Error(err, c.IsStored())
			}
			n.stop()
			n = start(t, s)
		}
		var got []string
		for _, e := range n.audited(carillon.AuditQuery{}) {
			got = append(got, fmt.Sprint(e.Principal, " ", e.Action, " ", e.Resource, " ", e.Outcome, " ", e.Seq))
		}
		want := []string{"key y PauseJob a ok 4", "key x PutJob a ok 3", "key y PauseJob a ok 2", "key x PutJob a ok 1"}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if heads := n.wantWhole(); len(heads) != 1 || heads[0].Seq != 4 {
			t.Errorf("%v", heads)
		}
		n.stop()
	})
}

func hourly1(name string) carillon.Job {
	return carillon.Job{Name: name, Schedule: "@hourly", Target: carillon.WorkerQueue("q")}
}

// TestABatchHasOneEntry: however its jobs are stored.
func TestABatchHasOneEntry(t *testing.T) {
	for name, lanes := range map[string]int{"as a group": 1, "by an intent": 4} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := startWith(t, engine.Config{Store: memory.New(memory.Options{Partitions: 4}), Lanes: lanes})
				var jobs []carillon.Job
				for i := range 20 {
					jobs = append(jobs, hourly1(fmt.Sprint("job/", i)))
				}
				ctx, c := by("key x", "BatchPutJobs", "job/0")
				if _, err := n.PutJobs(ctx, jobs); err != nil || !c.IsStored() {
					t.Error(err, c.IsStored())
				}
				if all := n.audited(carillon.AuditQuery{}); len(all) != 1 || all[0].Action != "BatchPutJobs" {
					t.Errorf("%+v", all)
				}
				n.wantWhole()
				n.stop()
			})
		})
	}
}

// TestAuditList: entries of all partitions come newest first, each once, whatever the size of the pages, and
// filters select them.
func TestAuditList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 4}))
		begin := time.Now()
		const jobs = 40
		for i := range jobs {
			ctx, _ := by([]string{"key a", "key ab", "oidc z"}[i%3], "PutJob", "")
			if _, err := n.PutJob(ctx, hourly1(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			if i%4 == 3 { // several have one time
				time.Sleep(time.Second)
			}
		}
		all := n.audited(carillon.AuditQuery{})
		if len(all) != jobs || !slices.IsSortedFunc(all, func(a, b carillon.AuditEntry) int { return b.Time.Compare(a.Time) }) {
			t.Fatalf("%d entries, or not in order", len(all))
		}
		for size := 1; size <= jobs; size += 6 {
			if paged := n.audited(carillon.AuditQuery{PageSize: size}); fmt.Sprint(paged) != fmt.Sprint(all) {
				t.Errorf("in pages of %d: %v", size, paged)
			}
		}
		for _, c := range []struct {
			q    carillon.AuditQuery
			want int
		}{
			{carillon.AuditQuery{Principal: "key a"}, 14},
			{carillon.AuditQuery{Principal: "key a*"}, 27},
			{carillon.AuditQuery{Namespace: "other"}, 0},
			{carillon.AuditQuery{Action: "PutJob", Outcome: "ok"}, jobs},
			{carillon.AuditQuery{Outcome: "not_found"}, 0},
			{carillon.AuditQuery{Since: begin.Add(3 * time.Second)}, 28},
			{carillon.AuditQuery{Until: begin.Add(3 * time.Second)}, 12},
			{carillon.AuditQuery{Since: begin.Add(time.Second), Until: begin.Add(2 * time.Second), PageSize: 3}, 4},
		} {
			if got := n.audited(c.q); len(got) != c.want {
				t.Errorf("%+v: %d entries, want %d", c.q, len(got), c.want)
			}
		}
		if _, err := n.ListAudit(t.Context(), carillon.AuditQuery{PageToken: "x"}); err == nil {
			t.Error("what is no token is taken for one")
		}
		n.stop()
	})
}

// TestAuditListPassesDamage: an entry that cannot be read has the time of the next one that can be, so that it
// neither ends a list nor puts it out of order.
func TestAuditListPassesDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Partitions: 2})
		n := start(t, s)
		begin := time.Now()
		const entries = 20
		for i := range entries {
			if err := n.Record(t.Context(), &store.AuditEntry{Action: "DrainNode", Resource: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
			ctx, _ := by("key a", "PutJob", "") // also of the other partition
			if _, err := n.PutJob(ctx, hourly1(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		whole := n.audited(carillon.AuditQuery{PageSize: 1000})
		n.stop()
		terms, err := s.Leaser().Claim(t.Context(), "damage", []int{0, 1}, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		damaged := 0
		for p, term := range terms {
			shard, err := s.Shard(p, term)
			if err != nil {
				t.Fatal(err)
			}
			records, err := shard.MetaRecords(t.Context(), store.MetaQuery{Kind: store.KindAudit, Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			b := &store.Batch{}
			for i, r := range records {
				if i == len(records)-1 || i == len(records)/2 || i%5 == 1 || i%5 == 2 {
					b.MetaRecords = append(b.MetaRecords, store.MetaRecord{Kind: r.Kind, Key: r.Key, Value: []byte{0xff}})
				}
			}
			damaged += len(b.MetaRecords)
			if err := shard.Apply(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		n = start(t, s)
		all := n.audited(carillon.AuditQuery{PageSize: 1000})
		if len(all) != len(whole) || !slices.IsSortedFunc(all, func(a, b carillon.AuditEntry) int { return b.Time.Compare(a.Time) }) {
			t.Fatalf("%d entries of %d, or not in order", len(all), len(whole))
		}
		if got := n.audited(carillon.AuditQuery{Outcome: "damaged"}); len(got) != damaged {
			t.Errorf("%d are damaged, want %d", len(got), damaged)
		}
		for size := 1; size <= 2*entries; size += 3 {
			if paged := n.audited(carillon.AuditQuery{PageSize: size}); fmt.Sprint(paged) != fmt.Sprint(all) {
				t.Errorf("in pages of %d: %v", size, paged)
			}
		}
		if got := n.audited(carillon.AuditQuery{Since: begin}); len(got) != len(whole) {
			t.Errorf("%d since the beginning, want %d", len(got), len(whole))
		}
		for i := range entries {
			at := begin.Add(time.Duration(i) * time.Second)
			early := n.audited(carillon.AuditQuery{Until: at})
			late := n.audited(carillon.AuditQuery{Since: at})
			if fmt.Sprint(slices.Concat(late, early)) != fmt.Sprint(all) {
				t.Errorf("until second %d there are %d, and since then %d", i, len(early), len(late))
			}
		}
		n.stop()
	})
}

// TestASlowLogKeepsNobodyWaiting: while who is told of entries stalls, calls are answered. Later he is told of
// all of them but those that were too many, whose number is logged.
func TestASlowLogKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		stalled, told := make(chan struct{}), 0
		n := startWith(t, engine.Config{Store: memory.New(memory.Options{Partitions: 1}),
			Log: slog.New(slog.NewTextHandler(&text, nil)),
			Events: engine.Events{Recorded: func(string, *store.AuditEntry, []byte) {
				<-stalled
				told++
			}}})
		long := strings.Repeat("x", 1<<20)
		const entries = 9
		for range entries {
			if err := n.Record(t.Context(), &store.AuditEntry{Action: "DrainNode", Resource: long}); err != nil {
				t.Fatal(err)
			}
		}
		if told > 0 {
			t.Error("it does not stall")
		}
		close(stalled)
		synctest.Wait()
		if told != 3 || !strings.Contains(text.String(), "left_out=6") {
			t.Errorf("told of %d of %d: %s", told, entries, text.String())
		}
		if err := n.Record(t.Context(), &store.AuditEntry{Action: "DrainNode"}); err != nil {
			t.Fatal(err)
		}
		n.stop()
		if told != 4 {
			t.Error("one that was recorded before a stop was not told of")
		}
	})
}

// TestAuditRetention: what is old is removed, the chain stays whole, and heads that were noted still hold.
func TestAuditRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startWith(t, engine.Config{Store: memory.New(memory.Options{Partitions: 2}),
			Partition: partition.Config{AuditKeep: time.Hour, AuditMost: 1500}})
		record := func(some int) {
			for i := range some {
				if err := n.Record(t.Context(), &store.AuditEntry{Action: "DrainNode", Resource: fmt.Sprint(i)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		record(10)
		early := n.wantWhole()
		time.Sleep(30 * time.Minute)
		record(5)
		middle := n.wantWhole()
		time.Sleep(40 * time.Minute)
		if all := n.audited(carillon.AuditQuery{}); len(all) != 5 {
			t.Errorf("%d are left", len(all))
		}
		chains, err := n.VerifyAudit(t.Context(), append(early, middle...))
		if err != nil || len(chains) != 1 || chains[0].Broken != "" || chains[0].First != 11 {
			t.Errorf("%+v %v", chains, err)
		}
		record(3000)
		time.Sleep(2 * time.Minute)
		if all := n.audited(carillon.AuditQuery{PageSize: 1000}); len(all) != 1500 {
			t.Errorf("%d are left", len(all))
		}
		n.wantWhole()
		time.Sleep(2 * time.Hour)
		if all := n.audited(carillon.AuditQuery{}); len(all) != 0 {
			t.Errorf("%d are left", len(all))
		}
		record(1)
		if heads := n.wantWhole(); len(heads) != 1 || heads[0].Seq != 3016 {
			t.Errorf("%v", heads)
		}
		missing := carillon.AuditHead{Chain: "9-1-f", Seq: 1, Hash: early[0].Hash}
		chains, err = n.VerifyAudit(t.Context(), []carillon.AuditHead{missing})
		if err != nil || len(chains) != 2 || chains[1].Broken == "" {
			t.Errorf("of a chain that is nowhere: %+v %v", chains, err)
		}
		n.stop()
	})
}

// TestAuditIsRemovedAsFastAsItComes: of a partition with far too many entries thousands are removed a second.
func TestAuditIsRemovedAsFastAsItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startWith(t, engine.Config{Store: memory.New(memory.Options{Partitions: 1}),
			Partition: partition.Config{AuditMost: 500}})
		for range 8000 {
			if err := n.Record(t.Context(), &store.AuditEntry{Action: "DrainNode"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute + 4*time.Second)
		if all := n.audited(carillon.AuditQuery{PageSize: 1000}); len(all) != 500 {
			t.Errorf("%d are left", len(all))
		}
		n.wantWhole()
		n.stop()
	})
}

// TestADamagedAuditChainIsTold of, once.
func TestADamagedAuditChainIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memory.New(memory.Options{Partitions: 1})
		terms, err := disk.Leaser().Claim(t.Context(), "earlier", []int{0}, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		shard, err := disk.Shard(0, terms[0])
		if err != nil {
			t.Fatal(err)
		}
		lost := store.AuditChain{First: 1, Last: 5, Closed: true}
		if err := shard.Apply(t.Context(), &store.Batch{MetaRecords: []store.MetaRecord{{Kind: store.KindAuditChain, Key: "1-1-a",
			Value: codec.AppendAuditChain(nil, &lost)}}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		var log bytes.Buffer
		n := startWith(t, engine.Config{Store: disk, Log: slog.New(slog.NewTextHandler(&log, nil))})
		time.Sleep(3 * time.Minute)
		n.stop()
		if got := strings.Count(log.String(), "chain=1-1-a"); got != 1 {
			t.Errorf("it is told of %d times: %s", got, log.String())
		}
	})
}

// TestAnEntryIsAsDurableAsItsChange: over kills of nodes, an acknowledged put has its entry, and there are as
// many entries as puts that have changed something, acknowledged or not.
func TestAnEntryIsAsDurableAsItsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memory.New(memory.Options{Partitions: 4})
		const jobs, lives = 8, 4
		acknowledged := make([]int, jobs)
		for life := range lives {
			n, kill := startKillable(t, disk)
			var callers sync.WaitGroup
			for i := range jobs {
				callers.Go(func() {
					for k := 0; ; k++ {
						j := hourly1(fmt.Sprint("job/", i))
						j.Note = fmt.Sprint(life, " ", k)
						ctx, c := by("key x", "PutJob", "")
						if _, err := n.PutJob(ctx, j); err != nil {
							return
						}
						if acknowledged[i]++; !c.IsStored() {
							t.Error("a put is acknowledged without its entry")
						}
						time.Sleep(time.Duration(1+i) * time.Millisecond)
					}
				})
			}
			time.Sleep(time.Duration(50+life*7) * time.Millisecond)
			kill()
			callers.Wait()
			time.Sleep(time.Minute) // until the leases are over
		}
		n := start(t, disk)
		n.wantWhole()
		for i := range jobs {
			name := fmt.Sprint("job/", i)
			job, err := n.GetJob(context.Background(), carillon.Key{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			entries := 0
			for _, e := range n.audited(carillon.AuditQuery{Outcome: carillon.AuditOK, PageSize: 1000}) {
				if e.Resource == name {
					entries++
				}
			}
			if entries != int(job.Status.Generation) || entries < acknowledged[i] || acknowledged[i] < lives {
				t.Errorf("%s: %d entries, generation %d, %d acknowledged", name, entries, job.Status.Generation,
					acknowledged[i])
			}
		}
		n.stop()
	})
}
