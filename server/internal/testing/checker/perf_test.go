package checker

import (
	"fmt"
	"testing"
)

// BenchmarkCheck judges 18 jobs of three minutes.
func BenchmarkCheck(b *testing.B) {
	h := lawful(1, 18).History
	b.ReportMetric(float64(len(h.Attempts)), "attempts")
	for b.Loop() {
		Check(h, Spec{})
	}
}

// BenchmarkCheckMany judges a hundred thousand attempts: a hundred jobs, each of them a thousand times.
func BenchmarkCheckMany(b *testing.B) {
	t := newTale()
	t.End = sec(10_100)
	for i := range 100 {
		name := fmt.Sprintf("job%d", i)
		schedule := "@every 10s"
		if i%2 == 0 {
			schedule = "*/10 * * * * *"
		}
		t.put(name, Job{Schedule: schedule, Payload: "p"}, 0, 10)
		for s := 10.0; s <= 10_100; s += 10 {
			t.ran(name, s, s+0.1)
			t.ended(name, "succeeded", s, s+0.2)
		}
		t.is(name)
	}
	for b.Loop() {
		if v := Check(t.History, Spec{}); v.Counters.Musts < 90_000 {
			b.Fatal(v)
		}
	}
}
