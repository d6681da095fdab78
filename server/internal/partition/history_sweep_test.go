package partition_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
)

func TestHistoryOfAPartitionIsBounded(t *testing.T) {
	const most = 500
	r := newRig(t, partition.Config{HistoryMost: most, HistoryExpires: 100})
	for i := range 2000 {
		r.mustPut(carillon.Job{Name: fmt.Sprintf("j%d", i)})
		r.succeed(r.deliver(1)[0])
		r.flush()
		if i%1000 == 0 {
			r.m.History.Sweep(r.now)
		}
	}
	kept := 0
	for i := range 2000 {
		kept += len(r.history(fmt.Sprintf("j%d", i)))
	}
	if kept < most || kept > most+100 {
		t.Fatalf("%d finished runs kept, at most %d are wanted", kept, most)
	}
}

func TestDeadRunsAreKeptAsLongAsConfigured(t *testing.T) {
	r := newRig(t, partition.Config{DeadRetention: time.Hour, HistoryMost: 1})
	r.mustPut(carillon.Job{Name: "a", FailurePolicy: carillon.FailurePolicy{Kind: carillon.PolicyConstant,
		OnExhausted: carillon.ExhaustedDead}.WithMaxRetries(0),
		History: carillon.History{Runs: 1, Keep: time.Minute}})
	r.failRun(r.deliver(1)[0])
	r.flush()
	for i, left := range []int{1, 1, 0} {
		r.m.History.Sweep(r.now)
		r.flush()
		if n := len(r.history("a")); n != left {
			t.Fatalf("%d: %d left", i, n)
		}
		r.advance(30*time.Minute + 1)
	}
}

func TestAJobKeepsAsMuchHistoryAsItSays(t *testing.T) {
	r := newRig(t, partition.Config{})
	keeps := map[string]carillon.History{"default": {}, "three": {Runs: 3}, "none": {Runs: -1},
		"short": {Runs: 100, Keep: 20 * time.Second}}
	for name, h := range keeps {
		r.mustPut(carillon.Job{Name: name, Schedule: "@every 1s", History: h})
	}
	for range 100 {
		r.advance(time.Second)
		for _, d := range r.deliver(10) {
			r.succeed(d)
		}
		r.flush()
	}
	r.m.History.Sweep(r.now)
	r.flush()
	for name, want := range map[string][2]int{"default": {20, 29}, "three": {3, 12}, "none": {0, 0},
		"short": {20, 21}} {
		h := r.history(name)
		if len(h) < want[0] || len(h) > want[1] {
			t.Errorf("%s: %d runs are kept, want %v", name, len(h), want)
		}
		for i := range h { // the newest, without a gap
			if h[i].ID.Scheduled != epoch+int64(100-i)*1e9 {
				t.Errorf("%s: run %d is of %v", name, i, h[i].ID.ScheduledTime())
			}
		}
	}
}
