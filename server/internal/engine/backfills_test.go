package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// started is a run as a consumer got it, and when.
type started struct {
	carillon.Run
	at time.Time
}

// record is a handler that notes when runs arrive and succeeds.
func record(into *[]started) func(carillon.Run) *carillon.Result {
	return func(r carillon.Run) *carillon.Result {
		*into = append(*into, started{r, time.Now()})
		return success(r)
	}
}

// TestABackfillKeepsItsRateOverARestart: runs twenty times at two a second, with the node down for three
// seconds in the middle. Each run comes once, in order, at least half a second after the one before, and the
// restart is not made up for.
func TestABackfillKeepsItsRateOverARestart(t *testing.T) {
	for _, overlap := range []carillon.Overlap{carillon.OverlapSerial, carillon.OverlapAllow} {
		t.Run(overlap.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { rateOverRestart(t, overlap) })
		})
	}
}

func rateOverRestart(t *testing.T, overlap carillon.Overlap) {
	const runs, apart = 20, time.Second / 2
	ctx, cancel := context.WithCancel(context.Background())
	s := memory.New(memory.Options{})
	n := start(t, s)
	key := carillon.Key{Namespace: "default", Name: "report"}
	if _, err := n.PutJob(ctx, carillon.Job{Name: "report", Schedule: "@daily", Paused: true,
		Target: carillon.WorkerQueue("q")}); err != nil {
		t.Fatal(err)
	}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	spec := carillon.BackfillSpec{From: today.AddDate(0, 0, 1-runs), To: today, Overlap: overlap, Rate: 2}
	var got []started
	n.consume("q", 10, record(&got))
	b, err := n.StartBackfill(ctx, key, spec)
	if err != nil || b.Total != runs || b.Status != carillon.BackfillRunning {
		t.Fatalf("%+v %v", b, err)
	}
	cancel() // the backfill goes on
	ctx = context.Background()
	time.Sleep(4*time.Second + 100*time.Millisecond)
	n.stop()
	before := len(got)
	time.Sleep(3 * time.Second)
	n = start(t, s)
	n.consume("q", 10, record(&got))
	now, err := n.GetBackfill(ctx, "default", b.ID)
	if err != nil || now.Status != carillon.BackfillRunning || int(now.Begun) < before ||
		int(now.Begun) > before+1 {
		t.Errorf("after the restart: %+v %v, want %d begun or one more", now, err, before)
	}
	time.Sleep(10 * time.Second)
	synctest.Wait()
	if before != 9 || len(got) != runs {
		t.Fatalf("%d runs before the restart, %d in all", before, len(got))
	}
	for i, r := range got {
		if want := spec.From.AddDate(0, 0, i); !r.Scheduled.Equal(want) || r.Backfill != b.ID ||
			r.Cause != carillon.CauseBackfill {
			t.Errorf("run %d: %+v, want that of %s", i, r.Run, want)
		}
		if i > 0 && r.at.Sub(got[i-1].at) < apart {
			t.Errorf("run %d begins %v after the one before", i, r.at.Sub(got[i-1].at))
		}
	}
	run, err := n.GetRun(ctx, "default", got[3].ID)
	if err != nil || run.Backfill != b.ID || run.Status != carillon.RunSucceeded {
		t.Errorf("a run of it: %+v %v", run, err)
	}
	end, err := n.GetBackfill(ctx, "default", b.ID)
	if err != nil || end.Status != carillon.BackfillDone || end.Succeeded != runs || end.Failed != 0 ||
		end.Finished.IsZero() || !end.Next.IsZero() {
		t.Errorf("in the end: %+v %v", end, err)
	}
	n.stop()
}

func TestBackfillsAreListedAndCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memory.New(memory.Options{Partitions: 4})
		n := start(t, s)
		key := carillon.Key{Namespace: "default", Name: "a"}
		job := carillon.Job{Name: "a", Schedule: "* * * * *", Paused: true, Target: carillon.WorkerQueue("q"),
			History: carillon.History{Keep: time.Hour}}
		if _, err := n.PutJob(ctx, job); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for i := range 3 {
			spec := carillon.BackfillSpec{From: time.Now().Add(-time.Hour), To: time.Now(),
				Overlap: carillon.Overlap(2 * (i % 2))}
			b, err := n.StartBackfill(ctx, key, spec)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, b.ID)
			time.Sleep(10 * time.Second) // the runs are parked: nobody serves the queue
		}
		slices.Reverse(ids)
		for range 2 { // it is harmless to repeat
			b, err := n.CancelBackfill(ctx, "default", ids[1])
			if err != nil || b.Status != carillon.BackfillCancelled {
				t.Fatalf("cancelled: %+v %v", b, err)
			}
		}
		time.Sleep(time.Second)
		if b, err := n.GetBackfill(ctx, "default", ids[1]); err != nil || b.Begun != 60 || b.Failed != 60 ||
			b.Finished.IsZero() {
			t.Errorf("cancelled: %+v %v", b, err)
		}
		listed := func() (got []string) {
			list, err := n.ListBackfills(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range list {
				got = append(got, b.ID)
			}
			return got
		}
		if got := listed(); !slices.Equal(got, ids) {
			t.Errorf("listed %v, want %v", got, ids)
		}
		for _, id := range ids {
			if _, err := n.GetBackfill(ctx, "other", id); !errors.Is(err, carillon.NotFound) {
				t.Errorf("another namespace sees it: %v", err)
			}
			if _, err := n.CancelBackfill(ctx, "other", id); !errors.Is(err, carillon.NotFound) {
				t.Errorf("another namespace cancels it: %v", err)
			}
		}
		notOne := store.RunID{Scheduled: 1, Cause: carillon.CauseBackfill, Seq: 1}.String()
		for _, id := range []string{"", "nonsense", notOne} {
			for _, err := range []error{second(n.GetBackfill(ctx, "default", id)),
				second(n.CancelBackfill(ctx, "default", id))} {
				if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument ||
					e.Field != "id" {
					t.Errorf("id %q: %v", id, err)
				}
			}
		}
		nobody := store.RunID{Partition: 3, Cause: carillon.CauseBackfill, Seq: 1}.String()
		if _, err := n.CancelBackfill(ctx, "default", nobody); !errors.Is(err, carillon.NotFound) {
			t.Errorf("unknown: %v", err)
		}
		if _, err := n.DeleteJob(ctx, key); err != nil {
			t.Fatal(err)
		}
		if got := listed(); !slices.Equal(got, ids[1:2]) {
			t.Errorf("after the delete %v are listed, want the ended one, %v", got, ids[1])
		}
		time.Sleep(time.Hour + 2*time.Minute)
		if got := listed(); len(got) != 0 {
			t.Errorf("kept too long: %v", got)
		}
		n.stop()
	})
}

func second(_ carillon.Backfill, err error) error { return err }

// TestStartBackfillFollowsAPut: a backfill uses the schedule that the job has when the backfill is started.
func TestStartBackfillFollowsAPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 1}))
		key := carillon.Key{Namespace: "default", Name: "a"}
		var got []started
		n.consume("q", 10, record(&got))
		for i, schedule := range []string{"0 * * * *", "30 * * * *"} {
			if _, err := n.PutJob(ctx, carillon.Job{Name: "a", Schedule: schedule, Paused: true,
				Target: carillon.WorkerQueue("q")}); err != nil {
				t.Fatal(err)
			}
			b, err := n.StartBackfill(ctx, key,
				carillon.BackfillSpec{From: time.Now().Add(-2*time.Hour + 1), To: time.Now()})
			if err != nil || b.Total != 2 {
				t.Fatalf("%+v %v", b, err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			for _, r := range got[2*i:] {
				if r.Scheduled.Minute() != 30*i {
					t.Errorf("backfill %d runs %s", i, r.Scheduled)
				}
			}
		}
		if len(got) != 4 {
			t.Errorf("%d runs", len(got))
		}
		n.stop()
	})
}
