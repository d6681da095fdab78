package engine

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	memstore "github.com/carillonhq/carillon/server/store/memory"
	"github.com/carillonhq/carillon/server/store/pebble"
	"github.com/carillonhq/carillon/server/store/postgres"
	"github.com/carillonhq/carillon/server/store/redis"
)

// What the store of BenchmarkListRuns has: of the jobs, one in a hundred is staged, one in 200 running, one in
// 500 retrying, and one in 200 has a staged pending run. Runs have ended within the last day.
var (
	listJobs = flag.Int("list-jobs", 1_000_000, "jobs in BenchmarkListRuns")
	listRuns = flag.Int("list-runs", 200_000, "finished runs in BenchmarkListRuns, at most as many as jobs")
	listKept = flag.String("list-kept", "", "folder, PostgreSQL URL or Redis address whose store BenchmarkListRuns "+
		"fills if it is empty, and keeps; default a new one")
)

// BenchmarkListRuns measures pages of a hundred runs, or jobs, over 64 partitions: docs/decisions/0068 has the numbers.
func BenchmarkListRuns(b *testing.B) {
	for name, open := range map[string]func(b *testing.B) (store.Store, error){
		"memory": func(*testing.B) (store.Store, error) { return memstore.New(memstore.Options{}), nil },
		"pebble": func(b *testing.B) (store.Store, error) {
			return pebble.Open(cmp.Or(*listKept, b.TempDir()), pebble.Options{})
		},
		"postgres": func(b *testing.B) (store.Store, error) {
			url := *listKept
			if url == "" {
				server := realserver.StartPostgres(b, realserver.Volatile()...)
				url = server.URL(server.Database(b))
			}
			return postgres.Open(b.Context(), url, store.Options{})
		},
		"redis": func(b *testing.B) (store.Store, error) {
			address := *listKept
			if address == "" {
				address = realserver.StartRedis(b).Address()
			}
			return redis.Open(b.Context(), redis.Options{Addresses: []string{address}, Timeout: time.Minute})
		},
	} {
		b.Run(name, func(b *testing.B) {
			s, err := open(b)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			benchLists(b, s)
		})
	}
}

func benchLists(b *testing.B, s store.Store) {
	now := time.Now()
	ps := &partitions{store: s, macKey: s.Meta().MACKey, now: func() int64 { return now.UnixNano() }}
	for p := range s.Meta().Partitions {
		terms, err := s.Leaser().Claim(b.Context(), "node", []int{p}, 1<<60)
		if err != nil {
			b.Fatal(err)
		}
		shard, err := s.Shard(p, terms[0])
		if err != nil {
			b.Fatal(err)
		}
		ps.shards, ps.parts = append(ps.shards, shard), append(ps.parts, &partitionRunner{number: p})
	}
	filled, err := ps.shards[0].List(b.Context(), store.ListQuery{Limit: 1})
	if err != nil {
		b.Fatal(err)
	}
	if len(filled) == 0 {
		benchFill(b, ps.shards, now)
	}
	list := &runs{partitions: ps}
	is := func(s ...carillon.RunStatus) []carillon.RunStatus { return s }
	for _, c := range []struct {
		name  string
		q     carillon.RunQuery
		pages int // that are read; 0 is one
	}{
		{"all", carillon.RunQuery{}, 0},
		{"running, retrying", carillon.RunQuery{Statuses: is(carillon.RunRunning, carillon.RunRetrying)}, 0},
		{"staged", carillon.RunQuery{Statuses: is(carillon.RunStaged)}, 0},
		{"staged, a later page", carillon.RunQuery{Statuses: is(carillon.RunStaged)}, 20},
		{"staged, of a label of one in 50", carillon.RunQuery{Statuses: is(carillon.RunStaged), Label: "rare"}, 0},
		{"failed, dead in 12 hours", carillon.RunQuery{Statuses: is(carillon.RunFailed, carillon.RunDead),
			From: now.Add(-12 * time.Hour)}, 0},
		{"every end", carillon.RunQuery{Statuses: is(carillon.RunSucceeded, carillon.RunFailed, carillon.RunDead,
			carillon.RunCancelled, carillon.RunSkipped)}, 0},
		{"every end, a later page", carillon.RunQuery{Statuses: is(carillon.RunSucceeded, carillon.RunFailed,
			carillon.RunDead, carillon.RunCancelled, carillon.RunSkipped)}, 20},
		{"failed, of an error of one in 50", carillon.RunQuery{Statuses: is(carillon.RunFailed), Error: "rare"}, 0},
		{"scheduled within an hour", carillon.RunQuery{Statuses: is(carillon.RunScheduled), Until: now.Add(time.Hour)}, 0},
		{"scheduled in the 13th hour", carillon.RunQuery{Statuses: is(carillon.RunScheduled),
			From: now.Add(12 * time.Hour), Until: now.Add(13 * time.Hour)}, 0},
		{"of a job", carillon.RunQuery{Job: benchName(200)}, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			benchPages(b, c.pages, func(token string) (int, string, error) {
				c.q.PageToken = token
				page, err := list.ListRuns(b.Context(), c.q)
				return len(page.Runs), page.NextPageToken, err
			})
		})
	}
	lists := &jobs{partitions: ps}
	for _, c := range []struct {
		name  string
		q     carillon.JobQuery
		pages int
	}{
		{"jobs", carillon.JobQuery{}, 0},
		{"jobs, a later page", carillon.JobQuery{}, 20},
		{"jobs of a prefix", carillon.JobQuery{Prefix: "orders/7"}, 0},
		{"jobs that are paused", carillon.JobQuery{Phase: new(carillon.PhasePaused)}, 0},
		{"jobs that are retrying", carillon.JobQuery{Phase: new(carillon.PhaseRetrying)}, 0},
		{"jobs of a label of one in 5,000", carillon.JobQuery{Label: "rare"}, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			benchPages(b, c.pages, func(token string) (int, string, error) {
				c.q.PageToken = token
				page, err := lists.ListJobs(b.Context(), c.q)
				return len(page.Jobs), page.NextPageToken, err
			})
		})
	}
}

// benchPages reads a list, as many pages of it as are given, again and again.
func benchPages(b *testing.B, pages int, read func(token string) (found int, next string, err error)) {
	var took []time.Duration
	var token string
	found := 0
	for range b.N {
		began := time.Now()
		n, next, err := read(token)
		if err != nil {
			b.Fatal(err)
		}
		took, found, token = append(took, time.Since(began)), n, next
		if len(took)%max(pages, 1) == 0 {
			token = ""
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(found), "found")
	b.ReportMetric(0, "ns/op")
}

func benchName(i int) string { return fmt.Sprintf("orders/%08x-reminder", uint32(i)*2654435761) }

func benchFill(b *testing.B, shards []store.Shard, now time.Time) {
	b.Helper()
	batches := make([]store.Batch, len(shards))
	var writes errgroup.Group
	writes.SetLimit(4)
	flush := func(p, least int) {
		if len(batches[p].Puts)+len(batches[p].Runs) < least {
			return
		}
		batch := batches[p]
		batches[p] = store.Batch{}
		writes.Go(func() error { return shards[p].Apply(b.Context(), &batch) })
	}
	for i := range *listJobs {
		j := carillon.Job{Namespace: "default", Name: benchName(i), Schedule: "@every 24h",
			Target: carillon.WorkerQueue("mail"), Data: carillon.Bytes(make([]byte, 200), "")}
		if i%5000 == 0 {
			j.Labels = map[string]string{"rare": ""}
		}
		p := store.PartitionOf(j.Key(), len(shards))
		benchJob(&batches[p], p, i, &j, now)
		flush(p, 1000)
	}
	for p := range batches {
		flush(p, 1)
	}
	if err := writes.Wait(); err != nil {
		b.Fatal(err)
	}
}

// benchJob adds the i-th job, its pending run and its finished run, if it has them.
func benchJob(to *store.Batch, p, i int, j *carillon.Job, now time.Time) {
	uid := store.NewUID(j.Key(), [8]byte{1})
	next := now.Add(time.Duration(i) * (24 * time.Hour / time.Duration(*listJobs))).UnixNano()
	queue := delivery.QueueOf(j.Namespace, j.Target).String()
	s := store.State{UID: uid, Generation: 1, Priority: 2, Next: next, Due: next}
	begin := func(phase carillon.Phase, seq uint64) store.State {
		s := s
		s.Phase = phase
		s.Run = store.RunState{Live: true, Scheduled: now.UnixNano() - int64(i), Due: now.UnixNano(), Seq: seq}
		s.Due = now.Add(time.Minute).UnixNano()
		if phase == carillon.PhaseStaged {
			s.Queue, s.Due = queue, 0
		}
		return s
	}
	pending := store.Record{Ref: store.Ref{Key: j.Key(), Seq: 1}, State: begin(carillon.PhaseStaged, 1)}
	switch {
	case i%100 == 0:
		s = begin(carillon.PhaseStaged, 0)
	case i%200 == 1:
		s = begin(carillon.PhaseRunning, 0)
	case i%500 == 2:
		s = begin(carillon.PhaseRetrying, 0)
	}
	to.Puts = append(to.Puts, store.Record{Ref: store.Ref{Key: j.Key()}, Spec: codec.EncodeSpec(j), State: s})
	if i%200 == 3 {
		to.Puts = append(to.Puts, pending)
	}
	if i >= *listRuns {
		return
	}
	at := now.Add(-time.Duration(i) * (24 * time.Hour / time.Duration(*listRuns))).UnixNano()
	r := store.RunRecord{Key: j.Key(), ID: store.RunID{Partition: uint16(p), UID: uid, Scheduled: at},
		Status: carillon.RunSucceeded, Due: at, Started: at, Finished: at, Expires: at + int64(30*24*time.Hour),
		Attempt: 1, Queue: queue, Labels: j.Labels}
	if end := i * 37 % 100; end < 10 {
		r.Status = []carillon.RunStatus{carillon.RunFailed, carillon.RunDead, carillon.RunCancelled,
			carillon.RunSkipped, carillon.RunFailed}[end/2]
	}
	if r.Status == carillon.RunFailed {
		r.Errors = []carillon.AttemptError{{Attempt: 1, Message: []string{"common", "rare"}[max(0, 1-i%50)]}}
	}
	to.Runs = append(to.Runs, r)
}
