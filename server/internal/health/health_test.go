package health_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/health"
)

var errFull = errors.New("the disk is full")

func TestFailuresAreOneSeries(t *testing.T) {
	const second = int64(time.Second)
	var h health.Partition
	at := func(now int64, serves bool) (failed, ago time.Duration) {
		f, fails := h.Failure(7, now*second, serves)
		if !fails {
			return -1, 0
		}
		return f.For, f.Ago
	}
	if f, _ := at(1, false); f != -1 {
		t.Error("fails before anything has failed")
	}
	h.Fail(errFull, 10*second, false)
	if f, ago := at(13, false); f != 3*time.Second || ago != 0 {
		t.Errorf("without a term: for %v, %v ago", f, ago)
	}
	h.Began(10*second + second/2) // it owned the partition for a second
	h.Fail(errFull, 11*second+second/2, true)
	if f, _ := at(14, false); f != 3*time.Second {
		t.Errorf("the second of the term in between counts: %v", f)
	}
	h.Began(18 * second)
	if f, _ := at(20, true); f != -1 {
		t.Error("a term that lasts does not end it")
	}
	h.Fail(errFull, 30*second, true) // forgotten long ago: a new series
	if f, _ := at(31, false); f != time.Second {
		t.Errorf("a new series: %v", f)
	}
	h.Clear()
	if f, _ := at(31, false); f != -1 {
		t.Error("fails after clear")
	}
}
