package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store/memory"
)

// runsOf reads all pages of a list, each from the next node, and returns "job status" of each run.
func runsOf(t *testing.T, q carillon.RunQuery, nodes ...*node) (rows []string) {
	t.Helper()
	for i := 0; i == 0 || q.PageToken != ""; i++ {
		page, err := nodes[i%len(nodes)].ListRuns(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Runs {
			rows = append(rows, fmt.Sprint(r.Job, " ", r.Status))
		}
		q.PageToken = page.NextPageToken
	}
	return rows
}

// inEveryState puts jobs whose runs are in every state, and waits until the store knows.
func inEveryState(t *testing.T, nodes ...*node) {
	t.Helper()
	anyOf := func(do func(n *node) error) {
		t.Helper()
		var err error
		for _, n := range nodes {
			if err = do(n); err == nil {
				return
			}
		}
		t.Fatal(err)
	}
	put := func(j carillon.Job) {
		t.Helper()
		if j.Target.Kind() == "" {
			j.Target = carillon.WorkerQueue("served")
		}
		anyOf(func(n *node) error { _, err := n.PutJob(t.Context(), j); return err })
	}
	for _, n := range nodes {
		n.consume("served", 10, func(r carillon.Run) *carillon.Result {
			switch r.Job {
			case "busy", "busy-hourly":
				return nil
			case "fine":
				return &carillon.Result{Outcome: carillon.OutcomeSuccess}
			}
			return &carillon.Result{Message: "no " + r.Job}
		})
	}
	put(carillon.Job{Name: "busy", Labels: map[string]string{"team": "a"}})
	put(carillon.Job{Name: "busy-hourly", Schedule: "@every 1h", Due: carillon.In(time.Second)})
	put(carillon.Job{Name: "doomed", FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(0)})
	put(carillon.Job{Name: "dropped", FailurePolicy: carillon.Drop()})
	put(carillon.Job{Name: "fine"})
	put(carillon.Job{Name: "flaky", FailurePolicy: carillon.Constant(time.Hour), Labels: map[string]string{"team": "b"}})
	put(carillon.Job{Name: "later", Due: carillon.In(2 * time.Hour)})
	put(carillon.Job{Name: "paused", Schedule: "@hourly", Paused: true})
	put(carillon.Job{Name: "soon", Schedule: "@every 10m", Target: carillon.WorkerQueue("unserved")})
	put(carillon.Job{Name: "unserved", Target: carillon.WorkerQueue("unserved")})
	for range 2 {
		anyOf(func(n *node) error {
			_, err := n.TriggerJob(t.Context(), carillon.Key{Namespace: "default", Name: "soon"})
			return err
		})
	}
	put(carillon.Job{Name: "waits", DependsOn: []string{"later"}, Due: carillon.In(time.Second)})
	time.Sleep(10 * time.Second)
}

// TestRunsInEveryState: whatever state a run is in, a list by that state has it, and so has any other list
// that should, at each of the nodes, whoever owns its partition.
func TestRunsInEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 8}), 3, nil)
		f.deal(func(p int) int { return p % 3 })
		f.settled()
		inEveryState(t, f.nodes...)
		now := time.Now()
		is := func(s ...carillon.RunStatus) []carillon.RunStatus { return s }
		for _, c := range []struct {
			q    carillon.RunQuery
			want string // jobs with statuses
		}{
			{carillon.RunQuery{Statuses: is(carillon.RunScheduled)},
				"soon scheduled, later scheduled, busy-hourly scheduled, waits scheduled"},
			{carillon.RunQuery{Statuses: is(carillon.RunScheduled), Until: now.Add(time.Hour)},
				"soon scheduled, busy-hourly scheduled, waits scheduled"},
			{carillon.RunQuery{Statuses: is(carillon.RunScheduled), From: now.Add(time.Hour)}, "later scheduled"},
			{carillon.RunQuery{Statuses: is(carillon.RunStaged)}, "soon staged, soon staged, unserved staged"},
			{carillon.RunQuery{Statuses: is(carillon.RunRunning, carillon.RunRetrying)},
				"busy running, busy-hourly running, flaky retrying"},
			{carillon.RunQuery{Statuses: is(carillon.RunFailed, carillon.RunDead), From: now.Add(-time.Hour)},
				"doomed dead, dropped failed"},
			{carillon.RunQuery{Statuses: is(carillon.RunFailed, carillon.RunDead), Until: now.Add(-time.Hour)}, ""},
			{carillon.RunQuery{Statuses: is(carillon.RunSucceeded)}, "fine succeeded"},
			{carillon.RunQuery{Queue: "unserved"}, "soon staged, soon staged, unserved staged"},
			{carillon.RunQuery{Queue: "unserved", Kind: "http"}, ""},
			{carillon.RunQuery{Label: "team"}, "busy running, flaky retrying"},
			{carillon.RunQuery{Label: "team=b"}, "flaky retrying"},
			{carillon.RunQuery{Error: "no "}, "flaky retrying, doomed dead, dropped failed"},
			{carillon.RunQuery{Error: "no d"}, "doomed dead, dropped failed"},
			{carillon.RunQuery{Prefix: "busy"}, "busy running, busy-hourly running"},
			{carillon.RunQuery{Job: "soon"}, "soon staged, soon staged"},
			{carillon.RunQuery{Job: "soon", Statuses: is(carillon.RunScheduled, carillon.RunStaged)},
				"soon scheduled, soon staged, soon staged"},
			{carillon.RunQuery{Job: "doomed"}, "doomed dead"},
			{carillon.RunQuery{Job: "fine"}, "fine succeeded"}, // which is not there any more
			{carillon.RunQuery{Job: "paused", Statuses: is(carillon.RunScheduled)}, ""},
		} {
			for _, size := range []int{0, 1} {
				c.q.PageSize = size
				for i := range f.nodes {
					got := runsOf(t, c.q, slices.Concat(f.nodes[i:], f.nodes[:i])...)
					if len(c.q.Statuses) > 1 && c.q.Statuses[0] == carillon.RunFailed || c.q.Error != "" {
						slices.Sort(got) // they ended at one instant
						want := strings.Split(c.want, ", ")
						slices.Sort(want)
						c.want = strings.Join(want, ", ")
					}
					if strings.Join(got, ", ") != c.want {
						t.Errorf("%+v at node %d:\n%s\nwant\n%s", c.q, i, strings.Join(got, ", "), c.want)
					}
				}
			}
		}
		f.stop()
	})
}

// TestAJobShowsItsPendingRuns: the oldest of them, as they stand, also while nobody owns the partition.
func TestAJobShowsItsPendingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memory.New(memory.Options{Partitions: 2})
		f := startFleet(t, s, 1, nil)
		n := f.nodes[0]
		f.deal(func(int) int { return 0 })
		f.settled()
		key := carillon.Key{Namespace: "default", Name: "a"}
		if _, err := n.PutJob(ctx, carillon.Job{Name: "a", Schedule: "@daily",
			Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range carillon.MaxShownPending + 10 {
			run, err := n.TriggerJob(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			if i < carillon.MaxShownPending {
				want = append(want, run.ID)
			}
		}
		shown := func() (ids []string, statuses map[carillon.RunStatus]int) {
			job, err := n.GetJob(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			statuses = map[carillon.RunStatus]int{}
			for _, r := range job.Status.Pending {
				ids = append(ids, r.ID)
				statuses[r.Status]++
			}
			return ids, statuses
		}
		time.Sleep(10 * time.Second)
		if got, statuses := shown(); !slices.Equal(got, want) || statuses[carillon.RunStaged] != len(want) {
			t.Errorf("%d of %d: %v", len(got), len(want), statuses)
		}
		c := n.consumeHere("q", 3, func(carillon.Run) *carillon.Result { return nil })
		time.Sleep(time.Second)
		if got, statuses := shown(); !slices.Equal(got, want) || statuses[carillon.RunRunning] != 3 {
			t.Errorf("three are running: %d of %d: %v", len(got), len(want), statuses)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		n.Assign(nil)
		time.Sleep(10 * time.Second)
		if got, _ := shown(); !slices.Equal(got, want) {
			t.Errorf("without an owner: %d of %d", len(got), len(want))
		}
		f.stop()
	})
}

// TestAPageExaminesABoundedNumberOfRuns: a filter that few of many pass gives short pages, and in the end all
// that there are.
func TestAPageExaminesABoundedNumberOfRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 4}))
		const all = 5000
		var jobs []carillon.Job
		for i := range all {
			queue := "many"
			if i%1000 == 999 {
				queue = "few"
			}
			jobs = append(jobs, carillon.Job{Name: fmt.Sprintf("%04d", i), Due: carillon.In(time.Hour),
				Target: carillon.WorkerQueue(queue)})
		}
		for some := range slices.Chunk(jobs, carillon.MaxBatch) {
			if _, err := n.PutJobs(ctx, some); err != nil {
				t.Fatal(err)
			}
		}
		q := carillon.RunQuery{Statuses: []carillon.RunStatus{carillon.RunScheduled}, Queue: "few"}
		found, pages := 0, 0
		for ; pages == 0 || q.PageToken != ""; pages++ {
			page, err := n.ListRuns(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Runs) > 1 {
				t.Errorf("page %d has %d runs of 400 that may be looked at", pages, len(page.Runs))
			}
			found, q.PageToken = found+len(page.Runs), page.NextPageToken
		}
		if found != 5 || pages != 13 {
			t.Errorf("%d of 5 runs in %d pages, want 13", found, pages)
		}
		n.stop()
	})
}
