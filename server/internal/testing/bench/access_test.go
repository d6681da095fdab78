package bench

import (
	"testing"
)

// TestAccessPoints: each figure is the median of its own, and what a way adds is held against the first way
// of the same round, however much slower the machine became meanwhile.
func TestAccessPoints(t *testing.T) {
	round := func(cpu, p50 float64) Result {
		return Result{CPU: cpu, Rate: 1000 / cpu, Client: 2 * cpu, Latency: &Quantiles{P50: p50, P99: 10 * p50}}
	}
	a := Access{Ways: []Way{{Name: "open"}, {Name: "keys"}}}
	points := a.points([][]Result{
		{round(50, 3), round(100, 1), round(200, 2), round(100, 9)},
		{round(53, 3), round(101, 2), round(210, 1), round(104, 2)},
	})
	want := []AccessPoint{
		{Way: "open", Rate: 10, CPU: 100, Client: 200, P50: 2.5, P99: 25},
		{Way: "keys", Rate: (1000/101. + 1000/104.) / 2, CPU: 102.5, Client: 205, More: 3.5, Least: 1, Most: 10,
			P50: 2, P99: 20},
	}
	for i := range want {
		if points[i] != want[i] {
			t.Errorf("%+v, want %+v", points[i], want[i])
		}
	}
}
