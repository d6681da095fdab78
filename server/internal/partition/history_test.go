package partition

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

func TestAJobsHistoryIsTrimmed(t *testing.T) {
	out := &builder{seq: 1}
	h := newHistory(out, &Config{HistoryMost: 1000, HistoryExpires: 100})
	j, job := &carillon.Job{}, &store.State{}
	keep := j.HistoryRuns()
	for range keep + max(keep/2, trimSlack) {
		h.add(j, job, store.RunRecord{Status: carillon.RunSucceeded})
	}
	if len(out.trims) != 1 || out.trims[0].Keep != keep || int(job.Kept) != keep {
		t.Fatalf("%v, %d kept", out.trims, job.Kept)
	}
}

func TestADeadRunIsAlwaysKept(t *testing.T) {
	out := &builder{seq: 1}
	h := newHistory(out, &Config{DeadRetention: time.Hour, HistoryExpires: 100})
	j, job := &carillon.Job{History: carillon.History{Runs: -1}}, &store.State{}
	h.add(j, job, store.RunRecord{Status: carillon.RunDead, Finished: 5})
	if len(out.runs) != 1 || out.runs[0].Expires != 5+int64(time.Hour) || job.Kept != 0 || out.after != 1 {
		t.Fatalf("%v, %d kept, waits for %d", out.runs, job.Kept, out.after)
	}
}

func TestManyFinishedRunsCallTheSweep(t *testing.T) {
	out := &builder{seq: 1}
	h := newHistory(out, &Config{HistoryMost: 7, HistoryExpires: 4})
	h.add(&carillon.Job{}, nil, store.RunRecord{Finished: 1})
	if out.expire != nil {
		t.Fatal("swept too early")
	}
	h.add(&carillon.Job{}, nil, store.RunRecord{Finished: 2})
	if out.expire == nil || *out.expire != (store.Expire{Before: 2, Limit: 4, Most: 7}) || h.unswept != 0 {
		t.Fatalf("%+v", out.expire)
	}
}
