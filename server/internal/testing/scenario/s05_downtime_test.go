package scenario_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
)

// beforeTheFirst has leases end before the first time that comes while the node is down: what comes within a
// lease of a kill is in doubt, and neither skipped nor coalesced.
var beforeTheFirst = engine.Config{LeaseTTL: 9 * time.Second}

// S05: the node is down while 5,000 one-shots and 50 recurring jobs fall due. All one-shots run, most overdue
// first; a recurring job makes up for what it missed as its misfire rule says.
func TestS05DownWhileJobsFallDue(t *testing.T) {
	const n = 5000
	withConfig(t, beforeTheFirst, func(t *testing.T, w *world) {
		t0 := time.Now()
		for from := 0; from < n; from += carillon.MaxBatch {
			jobs := make([]carillon.Job, carillon.MaxBatch)
			for i := range jobs {
				jobs[i] = carillon.Job{Name: fmt.Sprintf("one/%d", from+i), Target: carillon.WorkerQueue("q"),
					Due: carillon.At(t0.Add(5*time.Second + time.Duration(from+i)*10*time.Millisecond))}
			}
			if _, err := w.node.PutJobs(t.Context(), jobs); err != nil {
				t.Fatal(err)
			}
		}
		rules := []carillon.MisfireRule{carillon.MisfireAll, carillon.MisfireLatest, carillon.MisfireSkip}
		for i := range 48 {
			rule := rules[i%3]
			w.put(carillon.Job{Name: fmt.Sprintf("%v/%d", rule, i), Schedule: "@every 10s",
				Due: carillon.At(t0.Add(10 * time.Second)), Misfire: carillon.Misfire{Rule: rule}})
		}
		w.kill()
		time.Sleep(time.Until(t0.Add(60*time.Second + time.Millisecond)))
		w.start()
		w.work("worker", done)
		sleep(5 * time.Second)
		for i := range 48 {
			rule := rules[i%3]
			var got []time.Duration
			for _, d := range w.deliveries(fmt.Sprintf("%v/%d", rule, i)) {
				got = append(got, d.Scheduled.Sub(t0)/time.Second)
			}
			want := map[carillon.MisfireRule][]time.Duration{
				carillon.MisfireAll: {10, 20, 30, 40, 50, 60}, carillon.MisfireLatest: {60}, carillon.MisfireSkip: {60},
			}[rule]
			if !slices.Equal(got, want) {
				t.Errorf("%v made up for %v, want %v", rule, got, want)
			}
		}
		sleep(2 * time.Minute)
		runs, seen := 0, map[string]bool{}
		last := map[int]delivery{} // by partition
		for _, d := range w.deliveries("") {
			if d.Job[:3] != "one" {
				continue
			}
			runs++
			seen[d.Job] = true
			p := store.PartitionOf(key(d.Job), w.disk.Meta().Partitions)
			if d.Scheduled.Before(last[p].Scheduled) {
				t.Errorf("%s came after %s, which was %v less overdue", d.Job, last[p].Job,
					last[p].Scheduled.Sub(d.Scheduled))
			}
			last[p] = d
		}
		if runs != n || len(seen) != n {
			t.Errorf("%d deliveries of %d one-shots, want %d once each", runs, len(seen), n)
		}
	})
}

// S05: what nobody was there to run stays in the history with its reason and how many times it stands for.
func TestS05MissedTimesAreRecorded(t *testing.T) {
	withConfig(t, beforeTheFirst, func(t *testing.T, w *world) {
		t0 := time.Now()
		w.put(carillon.Job{Name: "job", Schedule: "@every 10s", Due: carillon.At(t0.Add(10 * time.Second)),
			Misfire: carillon.Misfire{Rule: carillon.MisfireSkip}})
		w.kill()
		sleep(68 * time.Second)
		w.start()
		w.work("worker", done)
		sleep(4 * time.Second)
		h := w.history("job")
		if len(h) != 2 || h[0].Status != carillon.RunSkipped || h[0].Reason != "misfire" || h[0].Skipped.Times != 6 ||
			!h[0].Skipped.From.Equal(t0.Add(10*time.Second)) || !h[0].Scheduled.Equal(t0.Add(60*time.Second)) {
			t.Fatalf("the history says %+v", h)
		}
		if !h[1].Scheduled.Equal(t0.Add(70*time.Second)) || h[1].Status != carillon.RunSucceeded {
			t.Errorf("then %+v", h[1])
		}
	})
}
