package scenario_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// S01: one-shots run once, in the order of their times; a cancelled one does not; what comes along arrives
// unchanged.
func TestS01Basics(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		began := time.Now()
		due := map[string]time.Duration{"a": 5 * time.Second, "b": 5 * time.Second, "c": 5 * time.Second,
			"d": 6 * time.Second, "e": 9 * time.Second, "cancelled": 7 * time.Second, "past": -5 * time.Second}
		meta := map[string]string{"UserId": "7", "Action": "mail", "Priority": "high", "symbols": "=+/&?"}
		for _, name := range slices.Sorted(maps.Keys(due)) {
			w.put(carillon.Job{Name: name, Due: carillon.At(began.Add(due[name])), Metadata: meta})
		}
		if _, err := w.node.DeleteJob(t.Context(), key("cancelled")); err != nil {
			t.Fatal(err)
		}
		w.work("worker", done)
		sleep(15 * time.Second)
		var order []string
		for _, d := range w.deliveries("") {
			order = append(order, d.Job)
			if d.At.Before(d.Scheduled) {
				t.Errorf("%s ran %v early", d.Job, d.Scheduled.Sub(d.At))
			}
			if !maps.Equal(d.Metadata, meta) || d.Attempt != 1 || d.ID == "" {
				t.Errorf("%s arrived as attempt %d, id %q, metadata %v", d.Job, d.Attempt, d.ID, d.Metadata)
			}
		}
		slices.Sort(order[1:4]) // those of one instant have no order across partitions
		if want := []string{"past", "a", "b", "c", "d", "e"}; !slices.Equal(order, want) {
			t.Errorf("ran %v, want %v", order, want)
		}
		if late := w.deliveries("past")[0].At.Sub(began); late > time.Second {
			t.Errorf("what was due already ran after %v", late)
		}
		for _, name := range []string{"a", "unknown"} { // a has run
			if _, err := w.node.DeleteJob(t.Context(), key(name)); !errors.Is(err, carillon.NotFound) {
				t.Errorf("delete %s: %v, want not found", name, err)
			}
		}
		w.empty()
	})
}

// S01: a put that was acknowledged survives a kill at the very next moment.
func TestS01AKillRightAfterTheAcknowledgement(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.put(carillon.Job{Name: "kept", Due: carillon.In(time.Second)})
		w.kill()
		w.start()
		w.work("worker", done)
		sleep(3 * time.Second)
		if n := len(w.deliveries("kept")); n != 1 {
			t.Errorf("it ran %d times", n)
		}
		w.empty()
	})
}
