package store

import (
	"maps"
	"testing"
)

func TestCountsAdd(t *testing.T) {
	a, b, both := NewCounts(), NewCounts(), NewCounts()
	for i, c := range []struct {
		queue  string
		oldest int64
	}{{"q", 5}, {"q", 3}, {"r", 9}, {"q", 4}, {"q", -2}, {"s", 0}} {
		part := a
		if i%2 == 1 {
			part = b
		}
		part.AddStaged(c.queue, 1, c.oldest)
		part.Dead[c.queue]++
		both.AddStaged(c.queue, 1, c.oldest)
		both.Dead[c.queue]++
	}
	a.Add(b)
	if !maps.Equal(a.Staged, both.Staged) || !maps.Equal(a.Dead, both.Dead) {
		t.Errorf("the sum of two parts is %v, want %v", a, both)
	}
	if got := both.Staged["q"]; got != (StagedCount{N: 4, Oldest: -2}) {
		t.Errorf("of q: %+v", got)
	}
	if got := both.Staged["r"]; got != (StagedCount{N: 1, Oldest: 9}) {
		t.Errorf("of r: %+v", got)
	}
}
