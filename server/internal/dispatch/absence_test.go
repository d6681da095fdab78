package dispatch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

const arrival = 10 * time.Second

// warns checks whether a put for a queue is told that nobody serves it.
func warns(t *testing.T, h *Hub, what, queue string, want bool) {
	t.Helper()
	if warning := h.Advise(named(queue)); (warning != "") != want {
		t.Errorf("%s: %q, a warning is wanted: %v", what, warning, want)
	}
}

func TestWorkersHaveTimeToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := hub(Options{Arrival: arrival})
		h.SetNodes([]string{"a:1"})
		warns(t, h, "a node that has just come", "q", false)
		pass(arrival - 1)
		warns(t, h, "a little later", "q", false)
		pass(1)
		warns(t, h, "nobody has come", "q", true)

		m := join(t, h, "q").registration
		pass(time.Hour)
		warns(t, h, "served", "q", false)
		warns(t, h, "another", "other", true)
		m.Leave()
		warns(t, h, "it has just left", "q", false)
		pass(arrival - 1)
		warns(t, h, "a little later", "q", false)
		pass(1)
		warns(t, h, "it has left", "q", true)

		h.SetNodes([]string{"a:1", "b:1"})
		warns(t, h, "another node has come", "q", false)
		pass(arrival)
		warns(t, h, "and nobody with it", "q", true)
		h.SetNodes([]string{"a:1"})
		warns(t, h, "it has gone", "q", true)
	})
}

func TestANodeAloneWaitsForNoWorkers(t *testing.T) {
	h, _ := hub(Options{})
	warns(t, h, "at the start", "q", true)
	m := join(t, h, "q").registration
	warns(t, h, "served", "q", false)
	m.Leave()
	warns(t, h, "it has left", "q", true)
}

func TestQueuesThatWereServedAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := hub(Options{Arrival: arrival})
		for i := range 1000 {
			join(t, h, fmt.Sprint("q", i)).registration.Leave()
			pass(time.Second)
		}
		if got, most := len(h.absence.left), int(2*arrival/time.Second); got > most {
			t.Errorf("%d queues are remembered, at most %d may be", got, most)
		}
	})
}
