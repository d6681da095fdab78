package scenario_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// retries3 is S19's policy: 200 ms doubling, up to 500 ms of jitter, 3 attempts after the first.
func retries3() carillon.FailurePolicy {
	p := carillon.Exponential(200 * time.Millisecond).WithMaxRetries(3)
	p.Jitter = 500 * time.Millisecond
	return p
}

// S19: the worst case of the retries, 2,900 ms, is held against the interval, and both are named.
func TestS19RetryWindow(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for schedule, warned := range map[string]bool{"@every 2s": true, "@every 2900ms": true,
			"@every 3s": false, "": false} {
			p := w.put(carillon.Job{Name: "job", Schedule: schedule, FailurePolicy: retries3(),
				Due: carillon.In(time.Hour)})
			if got := len(p.Warnings) == 1 && strings.Contains(p.Warnings[0], "2.9s"); got != warned {
				t.Errorf("%q: warnings %v", schedule, p.Warnings)
			}
		}
		none := retries3().WithMaxRetries(0)
		if p := w.put(carillon.Job{Name: "none", Schedule: "@every 1s", FailurePolicy: none,
			Due: carillon.In(time.Hour)}); len(p.Warnings) != 0 {
			t.Errorf("no retries: %v", p.Warnings)
		}
		many := retries3().WithMaxRetries(64)
		if p := w.put(carillon.Job{Name: "many", Schedule: "@every 1s", FailurePolicy: many,
			Due: carillon.In(time.Hour)}); len(p.Warnings) != 1 {
			t.Errorf("64 retries: %v", p.Warnings)
		}
	})
}

// S19: each delay lies in [200·2^k, 200·2^k + 500] ms, over 300 sequences, and no sequence is longer than
// 2,900 ms.
func TestS19Delays(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.connect("worker", hello{queues: []string{"q"}, credits: 1000}, fails)
		const n = 300
		for i := range n {
			w.put(carillon.Job{Name: fmt.Sprint("job/", i), FailurePolicy: retries3()})
		}
		sleep(time.Minute)
		distinct := map[time.Duration]bool{}
		for i := range n {
			ds := w.deliveries(fmt.Sprint("job/", i))
			if len(ds) != 4 || ds[3].At.Sub(ds[0].At) > 2900*time.Millisecond {
				t.Fatalf("job %d: %d attempts over %v", i, len(ds), ds[len(ds)-1].At.Sub(ds[0].At))
			}
			for k := range 3 {
				gap, least := ds[k+1].At.Sub(ds[k].At), 200*time.Millisecond<<k
				distinct[gap] = true
				if gap < least || gap > least+500*time.Millisecond {
					t.Errorf("job %d: retry %d after %v", i, k+1, gap)
				}
			}
		}
		if len(distinct) < n {
			t.Errorf("only %d different delays: the jitter is not one", len(distinct))
		}
	})
}

// S19: a receiver that drops what it has seen the key of sees each occurrence once, over 10,000 of them with
// 5 % of the deliveries failing after the work was done.
func TestS19IdempotencyKeys(t *testing.T) {
	const occurrences = 10_000
	inBubble(t, func(t *testing.T, w *world) {
		rng := rand.New(rand.NewPCG(19, 19))
		effects, deliveries := map[string]int{}, 0
		times := map[time.Time]string{}
		w.connect("worker", hello{queues: []string{"q"}, credits: 1}, func(r carillon.Run) []carillon.Result {
			deliveries++
			if effects[r.ID]++; effects[r.ID] == 1 {
				if other := times[r.Scheduled]; other != "" {
					t.Errorf("the occurrence of %v has the keys %s and %s", r.Scheduled, other, r.ID)
				}
				times[r.Scheduled] = r.ID
			}
			if rng.IntN(20) == 0 {
				return fails(r)
			}
			return done(r)
		})
		w.put(carillon.Job{Name: "job", Schedule: "@every 1s", Repeats: occurrences,
			Misfire:       carillon.Misfire{Rule: carillon.MisfireAll},
			FailurePolicy: carillon.Constant(100 * time.Millisecond)})
		sleep((occurrences + 10) * time.Second)
		if len(times) != occurrences || deliveries <= occurrences {
			t.Errorf("%d effects of %d occurrences, %d deliveries", len(times), occurrences, deliveries)
		}
	})
}
