package scenario_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
)

// S03, a tenth of it: 100,000 jobs due in a day to a month and 1,000 in two hours. What is far off costs no
// memory of the engine, and what is due runs on time.
func TestS03FarFutureInBulk(t *testing.T) {
	if testing.Short() {
		t.Skip("100,000 jobs take a while under the race detector")
	}
	const far, near, window = 100_000, 1_000, 2_000
	withConfig(t, engine.Config{WindowJobs: window}, func(t *testing.T, w *world) {
		began := time.Now()
		load := func(prefix string, n int, due func(i int) time.Duration) {
			for from := 0; from < n; from += carillon.MaxBatch {
				jobs := make([]carillon.Job, min(carillon.MaxBatch, n-from))
				for i := range jobs {
					jobs[i] = carillon.Job{Name: fmt.Sprintf("%s/%d", prefix, from+i),
						Due: carillon.At(began.Add(due(from + i))), Target: carillon.WorkerQueue("q"),
						Data: carillon.Bytes(make([]byte, 100), "text/plain")}
				}
				if _, err := w.node.PutJobs(t.Context(), jobs); err != nil {
					t.Fatal(err)
				}
			}
		}
		load("far", far, func(i int) time.Duration { return 24*time.Hour + time.Duration(i)*25*time.Second })
		load("near", near, func(i int) time.Duration { return 2*time.Hour + time.Duration(i)*time.Millisecond })
		sleep(time.Second)
		if s := w.node.Stats(); s.Resident > 2*window {
			t.Errorf("%d records in memory, of a window of %d", s.Resident, window)
		}
		w.connect("worker", hello{queues: []string{"q"}, credits: 1000}, done)
		sleep(2*time.Hour + time.Minute - time.Since(began))
		ds := w.deliveries("")
		if len(ds) != near {
			t.Fatalf("%d ran, want %d", len(ds), near)
		}
		late := make([]time.Duration, len(ds))
		for i, d := range ds {
			late[i] = d.At.Sub(d.Due)
		}
		slices.Sort(late)
		if p99 := late[len(late)*99/100]; late[0] < 0 || p99 > time.Second {
			t.Errorf("lateness from %v, p99 %v", late[0], p99)
		}
		w.count("", far)
		if n, err := w.node.DeleteJobs(t.Context(), carillon.DefaultNamespace, "far/"); err != nil || n != far {
			t.Fatalf("deleted %d, %v", n, err)
		}
		w.empty()
		runtime.GC()
	})
}

// count checks how many jobs with the prefix are in the store.
func (w *world) count(prefix string, want int) {
	w.t.Helper()
	n := 0
	for p := range w.disk.Meta().Partitions {
		sh, err := w.disk.Shard(p, store.Term{})
		if err != nil {
			w.t.Fatal(err)
		}
		q := store.ListQuery{Namespace: carillon.DefaultNamespace, Prefix: prefix, Limit: 10_000, MaxSpec: 1}
		for {
			page, err := sh.List(w.t.Context(), q)
			if err != nil {
				w.t.Fatal(err)
			}
			if n += len(page); len(page) < q.Limit {
				break
			}
			q.After = page[len(page)-1].Name
		}
	}
	if n != want {
		w.t.Errorf("%d jobs in the store, want %d", n, want)
	}
}
