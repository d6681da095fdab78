package engine

import (
	"testing"
	"time"
)

func TestFailuresAreOneSeries(t *testing.T) {
	const second = int64(time.Second)
	var h health
	at := func(now int64, serves bool) (failed, ago time.Duration) {
		f, fails := h.failure(7, now*second, serves)
		if !fails {
			return -1, 0
		}
		return f.For, f.Ago
	}
	if f, _ := at(1, false); f != -1 {
		t.Error("fails before anything has failed")
	}
	h.fail(errTest, 10*second, false)
	if f, ago := at(13, false); f != 3*time.Second || ago != 0 {
		t.Errorf("without a term: for %v, %v ago", f, ago)
	}
	h.beganAt.Store(10*second + second/2) // it owned the partition for a second
	h.fail(errTest, 11*second+second/2, true)
	if f, _ := at(14, false); f != 3*time.Second {
		t.Errorf("the second of the term in between counts: %v", f)
	}
	h.beganAt.Store(18 * second)
	if f, _ := at(20, true); f != -1 {
		t.Error("a term that lasts does not end it")
	}
	h.fail(errTest, 30*second, true) // forgotten long ago: a new series
	if f, _ := at(31, false); f != time.Second {
		t.Errorf("a new series: %v", f)
	}
	h.clear()
	if f, _ := at(31, false); f != -1 {
		t.Error("fails after clear")
	}
}
