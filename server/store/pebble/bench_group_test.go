package pebble_test

import (
	"fmt"
	"testing"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// BenchmarkGroup does what an engine does that commits all its partitions together: one goroutine, groups of
// a few records of each of 64 partitions. An op is a record.
//
//	put     a new job: the owner reads that it is not there, and puts it
//	start   a one-shot's attempt becomes durable: its state is rewritten, its due time moves
//	finish  the one-shot goes, and its run is recorded
//	tick    a recurring job's run is recorded, and the job goes on to the next
func BenchmarkGroup(b *testing.B) {
	for _, each := range []int{1, 8} {
		for _, name := range []string{"put", "start", "finish", "tick"} {
			b.Run(fmt.Sprintf("%s/each=%d", name, each), func(b *testing.B) { benchGroup(b, name, each) })
		}
	}
}

func benchGroup(b *testing.B, name string, each int) {
	s := open(b, b.TempDir(), pebble.Options{})
	g := &grouping{B: b, s: s, shards: own(b, s, benchOwners), each: each}
	const steady = 10_000 // jobs that tick
	switch name {
	case "put":
		g.measure(b.N, g.put)
	case "start":
		g.run(b.N, g.put)
		g.measure(b.N, g.start)
	case "finish":
		g.run(b.N, g.put)
		g.run(b.N, g.start)
		g.measure(b.N, g.finish)
	case "tick":
		g.run(steady, g.put)
		g.measure(b.N, func(i int, out *store.Batch) { g.tick(i, steady-steady%benchOwners, out) })
	}
}

// grouping writes groups.
type grouping struct {
	*testing.B
	s        *pebble.Store
	shards   []store.Shard
	each     int
	sampling bool
}

func groupDue(i int) int64 { return int64(1e18) + int64(i) }

// started is a one-shot whose attempt is under way.
func started(i int) store.Record {
	r := job(i, groupDue(i)+1e9, nil)
	r.State.Run = store.RunState{Live: true, Scheduled: groupDue(i), Due: groupDue(i), Attempt: 1}
	return r
}

func (g *grouping) put(i int, out *store.Batch) {
	r := job(i, groupDue(i), benchSpec)
	if _, err := g.shards[i%benchOwners].Read(g.Context(), []store.Ref{r.Ref}); err != nil {
		g.Fatal(err)
	}
	out.Puts = append(out.Puts, r)
}

func (g *grouping) start(i int, out *store.Batch) { out.Puts = append(out.Puts, started(i)) }

func (g *grouping) finish(i int, out *store.Batch) {
	r := started(i)
	out.Deletes = append(out.Deletes, r.Ref)
	out.Runs = append(out.Runs, finished(job(i, groupDue(i), nil), groupDue(i)+5))
}

// tick is the i-th tick of jobs that each have a run under way.
func (g *grouping) tick(i, jobs int, out *store.Batch) {
	r := job(i%jobs, groupDue(i+jobs), nil)
	r.State.Run = store.RunState{Live: true, Scheduled: groupDue(i + jobs), Due: groupDue(i + jobs), Attempt: 1}
	out.Puts = append(out.Puts, r)
	ended := r
	ended.State.Due = groupDue(i)
	out.Runs = append(out.Runs, finished(ended, groupDue(i)))
}

// run applies n records in groups.
func (g *grouping) run(n int, f func(i int, out *store.Batch)) {
	batches := make([]store.Batch, benchOwners)
	writes := make([]store.Write, benchOwners)
	for i := 0; i < n; {
		for p := range batches {
			batches[p].Puts, batches[p].Deletes, batches[p].Runs = batches[p].Puts[:0], batches[p].Deletes[:0], batches[p].Runs[:0]
			writes[p] = store.Write{Shard: g.shards[p], Batch: &batches[p]}
		}
		for end := min(n, i+g.each*benchOwners); i < end; i++ {
			f(i, &batches[i%benchOwners])
		}
		if g.sampling {
			g.written(writes, i)
		}
		if err := g.s.ApplyGroup(g.Context(), writes); err != nil {
			g.Fatal(err)
		}
	}
}

// measure is run, with what the first group takes in Pebble.
func (g *grouping) measure(n int, f func(i int, out *store.Batch)) {
	measure(g.B, n, func() {
		g.sampling = true
		g.run(n, f)
	})
}

// written reports what the first group of the measurement writes.
func (g *grouping) written(writes []store.Write, n int) {
	g.sampling = false
	operations, bytes, err := pebble.Built(g.s, writes)
	if err != nil {
		g.Fatal(err)
	}
	g.ReportMetric(float64(operations)/float64(n), "pebble-ops/op")
	g.ReportMetric(float64(bytes)/float64(n), "log-B/op")
}
