package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestAListIsBoundedInBytes: jobs with long payloads come in pages that stay below the largest message, and
// together hold each job once, in name order.
func TestAListIsBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 4}))
		const jobs = 90
		for i := range jobs {
			data := carillon.Bytes(make([]byte, 1+i%3*(100<<10)), "")
			j := carillon.Job{Name: fmt.Sprintf("j/%03d", i), Due: carillon.In(time.Hour),
				Target: carillon.WorkerQueue("q"), Data: data}
			if _, err := n.PutJob(ctx, j); err != nil {
				t.Fatal(err)
			}
		}
		var names []string
		q := carillon.JobQuery{PageSize: carillon.MaxBatch}
		for pages := 0; pages == 0 || q.PageToken != ""; pages++ {
			page, err := n.ListJobs(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			bytes := 0
			for _, j := range page.Jobs {
				bytes += len(j.Data.Bytes)
				names = append(names, j.Name)
			}
			if bytes > 4<<20 {
				t.Errorf("a page of %d bytes", bytes)
			}
			q.PageToken = page.NextPageToken
		}
		if len(names) != jobs || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != jobs {
			t.Errorf("%d names: %v", len(names), names)
		}
		n.stop()
	})
}

// TestAListByLabelIsBoundedInWork: pages of jobs with a rare label examine a bounded number of jobs each, so
// that they may be empty, and together they hold each job with the label once.
func TestAListByLabelIsBoundedInWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 4}))
		const jobs, each = 3000, 700
		var batch []carillon.Job
		for i := range jobs {
			j := carillon.Job{Name: fmt.Sprintf("j/%04d", i), Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}
			if i%each == each-1 {
				j.Labels = map[string]string{"rare": "yes"}
			}
			if batch = append(batch, j); len(batch) == carillon.MaxBatch {
				if _, err := n.PutJobs(ctx, batch); err != nil {
					t.Fatal(err)
				}
				batch = nil
			}
		}
		for _, q := range []carillon.JobQuery{{Label: "rare"}, {Label: "rare=yes"}, {Label: "rare=no"},
			{Label: "rare", Phase: new(carillon.PhaseScheduled)}, {Phase: new(carillon.PhasePaused)}} {
			found, pages := 0, 0
			for ; pages == 0 || q.PageToken != ""; pages++ {
				page, err := n.ListJobs(ctx, q)
				if err != nil {
					t.Fatal(err)
				}
				found, q.PageToken = found+len(page.Jobs), page.NextPageToken
			}
			want, most := jobs/each, 4
			if q.Label == "rare=no" || q.Label == "" {
				want = 0
			}
			if q.Label == "" {
				most = 1 // from an index
			}
			if found != want || pages > most || q.Label != "" && pages < 3 {
				t.Errorf("%+v: %d jobs on %d pages, want %d", q, found, pages, want)
			}
		}
		n.stop()
	})
}
