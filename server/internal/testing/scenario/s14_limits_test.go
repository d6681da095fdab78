package scenario_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// S14: five jobs of a tenant with two licence tokens. One hangs while its worker is alive, one always fails:
// never more than two attempts are in force, the hung run is lost soon after its lease and its token is free
// at once, the failing job is dead after three attempts with three errors and gone from the jobs, and a
// redrive runs it once more.
func TestS14HungJobAndTenantTokens(t *testing.T) {
	const lease = 10 * time.Second
	inBubble(t, func(t *testing.T, w *world) {
		if _, err := w.node.PutNamespace(t.Context(),
			carillon.Namespace{Name: carillon.DefaultNamespace,
				ConcurrencyLimits: map[string]int{"tenant": 2}}); err != nil {
			t.Fatal(err)
		}
		var hung, broken atomic.Bool
		hung.Store(true)
		broken.Store(true)
		w.work("worker", func(r carillon.Run) []carillon.Result {
			switch {
			case r.Job == "hangs" && hung.Swap(false):
				return nil
			case r.Job == "fails" && broken.Load():
				return fails(r)
			}
			time.Sleep(2 * time.Second)
			return done(r)
		})
		began := time.Now()
		for _, name := range []string{"hangs", "fails", "a", "b", "c"} {
			w.put(carillon.Job{Name: name, ConcurrencyKey: "tenant", Lease: lease,
				FailurePolicy: carillon.Exponential(time.Second).WithMaxRetries(2)})
		}
		most := 0
		for time.Since(began) < time.Minute {
			sleep(100 * time.Millisecond)
			most = max(most, w.node.Stats().InFlight)
		}
		if most != 2 {
			t.Errorf("%d attempts in force at once, want 2", most)
		}
		if ds := w.deliveries("hangs"); len(ds) != 2 || ds[1].At.Sub(ds[0].At) > lease+5*time.Second ||
			ds[1].Attempt != 2 {
			t.Errorf("the hung job: %+v", after(began, ds))
		}
		dead := w.dead()
		if len(dead) != 1 || dead[0].Job != "fails" || dead[0].Attempt != 3 || len(dead[0].Errors) != 3 {
			t.Fatalf("dead: %+v", dead)
		}
		for _, name := range []string{"hangs", "fails", "a", "b", "c"} {
			if !w.gone(name) {
				t.Errorf("%s is still a job", name)
			}
		}
		w.empty()
		broken.Store(false)
		if _, err := w.node.RedriveRun(t.Context(), carillon.DefaultNamespace, dead[0].ID); err != nil {
			t.Fatal(err)
		}
		sleep(10 * time.Second)
		if ds := w.deliveries("fails"); len(ds) != 4 || ds[3].ID != dead[0].ID {
			t.Errorf("after the redrive: %d deliveries", len(ds))
		}
		w.empty()
	})
}

// S14: tokens are counted right over a kill, and raising the limit lets more run at once.
func TestS14TenantTokensOverAKill(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		limit := func(n int) {
			if _, err := w.node.PutNamespace(t.Context(),
				carillon.Namespace{Name: carillon.DefaultNamespace,
					ConcurrencyLimits: map[string]int{"tenant": n}}); err != nil {
				t.Fatal(err)
			}
		}
		limit(3)
		w.work("worker", never)
		for i := range 20 {
			w.put(carillon.Job{Name: fmt.Sprint("job/", i), ConcurrencyKey: "tenant"})
		}
		sleep(5 * time.Second)
		w.kill()
		w.start()
		k := w.work("worker", never)
		sleep(5 * time.Second)
		if n := len(w.deliveries("")); n != 3 {
			t.Errorf("%d deliveries, want the 3 from before the kill", n)
		}
		limit(5)
		sleep(time.Second)
		if n := len(w.deliveries("")); n != 5 {
			t.Errorf("%d deliveries under a limit of 5", n)
		}
		for _, d := range w.deliveries("") {
			k.send(carillon.WorkRequest{Results: done(d.Run)})
		}
		sleep(time.Second)
		if n := len(w.deliveries("")); n != 10 {
			t.Errorf("%d deliveries after 5 had ended", n)
		}
	})
}

// S19: a strict namespace refuses a job whose retries take as long as its interval, naming both numbers.
func TestS19StrictNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		if _, err := w.node.PutNamespace(t.Context(),
			carillon.Namespace{Name: carillon.DefaultNamespace, Strict: true}); err != nil {
			t.Fatal(err)
		}
		w.kill()
		w.start() // it is remembered
		for schedule, refused := range map[string]string{"@every 2s": "2s", "@every 2900ms": "2.9s",
			"@every 3s": "", "": ""} {
			_, err := w.node.PutJob(t.Context(),
				carillon.Job{Name: "job", Schedule: schedule, FailurePolicy: retries3(),
					Target: carillon.WorkerQueue("q")})
			switch {
			case refused == "" && err != nil:
				t.Errorf("%q: %v", schedule, err)
			case refused != "" && (carillon.KindOf(err) != carillon.InvalidArgument ||
				!strings.Contains(err.Error(), "2.9s") || !strings.Contains(err.Error(), refused)):
				t.Errorf("%q: %v", schedule, err)
			}
		}
	})
}
