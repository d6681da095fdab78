package engine

import "testing"

func TestTimers(t *testing.T) {
	var p timers
	polls, sweeps := 0, 0
	for now := int64(1); now <= 3*int64(sweepEvery); now += int64(pollEvery) / 10 {
		if p.pollDue(now) {
			polls++
		}
		if p.sweepDue(now) {
			sweeps++
		}
	}
	if polls != 180 || sweeps != 2 {
		t.Errorf("%d polls and %d sweeps in three minutes", polls, sweeps)
	}
	p.owed = true
	if !p.requested() || p.requested() {
		t.Error("a request counts once")
	}
}
