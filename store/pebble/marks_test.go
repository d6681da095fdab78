package pebble

import (
	"math"
	"testing"
)

// TestMarks plays the orders in which a put and a scan can meet: the mark must never pass an entry.
func TestMarks(t *testing.T) {
	put := func(m *marks, due int64) { m.put([]dueMark{{2, due}}) }
	for name, play := range map[string]func(m *marks) (want int64){
		"a scan that finds nothing": func(m *marks) int64 {
			m.end(2, m.begin(2), 100)
			return 100
		},
		"a put during the scan": func(m *marks) int64 {
			scan := m.begin(2)
			put(m, 40)
			m.end(2, scan, 100)
			return 40
		},
		"a put that the snapshot has not, told of twice": func(m *marks) int64 {
			put(m, 40)
			scan := m.begin(2)
			put(m, 40)
			m.end(2, scan, 100)
			return 40
		},
		"a put after the scan": func(m *marks) int64 {
			m.end(2, m.begin(2), 100)
			put(m, 40)
			return 40
		},
		"two scans at once": func(m *marks) int64 {
			first := m.begin(2)
			second := m.begin(2)
			m.end(2, second, 300)
			m.end(2, first, 100)
			return 100
		},
		"a scan across a failure": func(m *marks) int64 {
			scan := m.begin(2)
			m.forget()
			m.end(2, scan, 100)
			return math.MinInt64
		},
		"a scan that failed": func(m *marks) int64 {
			m.end(2, m.begin(2), 100)
			m.end(2, m.begin(2), math.MinInt64)
			return 100
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMarks()
			if want, got := play(m), m.low(2); got != want {
				t.Errorf("the mark is %d, want %d", got, want)
			}
			if m.low(1) != math.MinInt64 {
				t.Error("another class has moved")
			}
		})
	}
}
