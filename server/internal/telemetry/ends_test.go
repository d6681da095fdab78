package telemetry_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/telemetry"
)

// TestOnlySomeQueuesHaveTheirOwnEnds: no run is lost, and queues beyond the bound share a row, however many
// goroutines come with new ones.
func TestOnlySomeQueuesHaveTheirOwnEnds(t *testing.T) {
	m := telemetry.New("v1")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 300 {
				m.Finished(delivery.Finished{Queue: queueOf(i), Status: carillon.RunDead, Took: time.Second})
			}
		})
	}
	all.Wait()
	text := read(m)
	own, other := 0, false
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "carillon_run_outcomes_total{") || !strings.Contains(line, `outcome="dead"`) {
			continue
		}
		switch {
		case strings.Contains(line, `{kind="_other",namespace="_other",outcome="dead",queue="_other"} 400`):
			other = true
		case strings.HasSuffix(line, "} 4\n"):
			own++
		default:
			t.Errorf("unexpected: %s", line)
		}
	}
	if own != 200 || !other {
		t.Errorf("%d queues have their own row, the others share one: %t", own, other)
	}
	if n := strings.Count(text, "carillon_run_seconds_count{"); n != 201 {
		t.Errorf("%d durations", n)
	}
}
