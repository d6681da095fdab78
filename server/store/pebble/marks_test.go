package pebble

import (
	"math"
	"testing"
)

// TestMarks plays the orders in which puts and scans can meet: the mark must never pass an entry.
func TestMarks(t *testing.T) {
	for name, play := range map[string]func(m *marks) (want int64){
		"a scan that finds nothing": func(m *marks) int64 {
			m.end(m.begin(2), 100)
			return 100
		},
		"a put during the scan": func(m *marks) int64 {
			s := m.begin(2)
			put(m, 40)
			m.end(s, 100)
			return 40
		},
		"a scan during the put": func(m *marks) int64 {
			m.soon([]dueMark{{2, 40}})
			m.end(m.begin(2), 100)
			return 40
		},
		"a put that ends during the scan": func(m *marks) int64 {
			m.soon([]dueMark{{2, 40}})
			s := m.begin(2)
			m.visible()
			m.end(s, 100)
			return 40
		},
		"a put after the scan": func(m *marks) int64 {
			m.end(m.begin(2), 100)
			put(m, 40)
			return 40
		},
		"a scan after the put": func(m *marks) int64 {
			put(m, 40)
			m.end(m.begin(2), 50)
			return 50
		},
		"two scans at once": func(m *marks) int64 {
			first, second := m.begin(2), m.begin(2)
			m.end(second, 300)
			m.end(first, 100)
			return 300
		},
		"a scan across a failure": func(m *marks) int64 {
			s := m.begin(2)
			m.forget()
			m.end(s, 100)
			return math.MinInt64
		},
		"a scan that failed": func(m *marks) int64 {
			m.end(m.begin(2), 100)
			m.end(m.begin(2), math.MinInt64)
			return 100
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMarks()
			if want, got := play(m), m.byPriority[2].low; got != want {
				t.Errorf("the mark is %d, want %d", got, want)
			}
			if m.byPriority[1].low != math.MinInt64 {
				t.Error("another priority has moved")
			}
			if len(m.byPriority[2].scans) != 0 {
				t.Error("a scan is still under way")
			}
		})
	}
}

// put is a whole put.
func put(m *marks, due int64) {
	m.soon([]dueMark{{2, due}})
	m.visible()
}

// TestMarksStart plays a scan whose snapshot is older than the mark: it must start where its snapshot has an
// entry.
func TestMarksStart(t *testing.T) {
	m := newMarks()
	m.end(m.begin(2), 100)
	old := m.begin(2)
	put(m, 40) // and the snapshot is taken here; the entry goes again
	m.end(m.begin(2), 100)
	if got := m.start(old); got != 40 {
		t.Errorf("the scan starts from %d, want 40", got)
	}
	m.end(old, 40)
	if got := m.start(m.begin(2)); got != 100 {
		t.Errorf("the next scan starts from %d, want 100", got)
	}
}
