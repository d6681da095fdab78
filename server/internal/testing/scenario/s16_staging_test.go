package scenario_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// S16: 40 jobs are due and nobody serves them: they are staged and use no attempt. After a restart a worker
// comes for 35 of them, which are delivered once, soon; 5 stay.
func TestS16NoConsumer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for i := range 40 {
			queue := "served"
			if i >= 35 {
				queue = "forsaken"
			}
			w.put(carillon.Job{Name: fmt.Sprintf("job/%02d", i), Target: carillon.WorkerQueue(queue)})
		}
		sleep(5 * time.Second)
		staged := func() (n int) {
			phase := carillon.PhaseStaged
			page, err := w.node.ListJobs(t.Context(), carillon.JobQuery{Phase: &phase})
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range page.Jobs {
				if j.Status.Current.Attempt != 0 {
					t.Errorf("%s has used attempt %d", j.Name, j.Status.Current.Attempt)
				}
			}
			return len(page.Jobs)
		}
		if n := staged(); n != 40 {
			t.Errorf("%d staged", n)
		}
		w.kill()
		w.start()
		sleep(time.Second)
		came := time.Now()
		w.connect("worker", hello{queues: []string{"served"}, credits: 3}, done)
		sleep(5 * time.Second)
		ds := w.deliveries("")
		for _, d := range ds {
			if d.Attempt != 1 || d.At.Sub(came) > 2*time.Second {
				t.Errorf("%s: attempt %d after %v", d.Job, d.Attempt, d.At.Sub(came))
			}
		}
		if len(ds) != 35 || staged() != 5 {
			t.Errorf("%d delivered, %d staged", len(ds), staged())
		}
	})
}

// S16: a staged job that is deleted is never delivered; of one that is put again only the new one is.
func TestS16StagedJobsDeletedAndReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.put(carillon.Job{Name: "deleted"})
		w.put(carillon.Job{Name: "replaced", Data: carillon.JSON("old")})
		sleep(5 * time.Second)
		if _, err := w.node.DeleteJob(t.Context(), key("deleted")); err != nil {
			t.Fatal(err)
		}
		w.put(carillon.Job{Name: "replaced", Data: carillon.JSON("new")})
		w.work("worker", done)
		sleep(5 * time.Second)
		if ds := w.deliveries(""); len(ds) != 1 || string(ds[0].Data.Bytes) != `"new"` {
			t.Errorf("delivered %+v", ds)
		}
		w.empty()
	})
}

// S16: a worker dies with ten runs in flight: another gets all ten, when their lease ends (decision 19: at
// once is Dapr's rule).
func TestS16ADeadConsumer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		dying := w.connect("dying", hello{queues: []string{"q"}, credits: 10}, never)
		for i := range 10 {
			w.put(carillon.Job{Name: fmt.Sprint("job/", i), Lease: 10 * time.Second})
		}
		sleep(2 * time.Second)
		dying.crash()
		w.work("living", done)
		sleep(9 * time.Second)
		if n := len(w.deliveries("")); n != 20 {
			t.Errorf("%d deliveries, want 10 to each worker", n)
		}
		w.empty()
	})
}

// S16: a connected worker that has room for three runs and never reads gets them, and holds up nobody else:
// what comes besides goes to another at once, and its three too when their leases have ended.
func TestS16OneThatNeverReads(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const room, others = 3, 40
		deaf, err := w.node.hub.Connect(t.Context(), carillon.Hello{Queues: []string{"q"}, WorkerID: "deaf"})
		if err != nil {
			t.Fatal(err)
		}
		if err := deaf.Send(t.Context(), carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q",
			N: room}}}); err != nil {
			t.Fatal(err)
		}
		for i := range room {
			w.put(carillon.Job{Name: fmt.Sprint("deaf/", i), Lease: 10 * time.Second})
		}
		sleep(time.Second)
		w.work("living", done)
		for i := range others {
			w.put(carillon.Job{Name: fmt.Sprint("job/", i), Lease: 10 * time.Second})
		}
		sleep(time.Second)
		if n := len(w.deliveries("")); n != others {
			t.Errorf("%d deliveries beside the worker that never reads, want %d", n, others)
		}
		sleep(time.Minute)
		if n := len(w.deliveries("")); n != others+room {
			t.Errorf("%d deliveries when the leases had ended, want %d", n, others+room)
		}
		w.empty()
	})
}
