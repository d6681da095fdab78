package partition_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// TestAResultIsKeptWithTheRun: that of the last attempt, whatever its outcome, unless the job keeps none.
func TestAResultIsKeptWithTheRun(t *testing.T) {
	for _, none := range []bool{false, true} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", History: carillon.History{NoResults: none},
			FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(1)})
		for _, last := range []carillon.Outcome{carillon.OutcomeFailure, carillon.OutcomeSuccess} {
			r.trigger("a")
			r.flush()
			r.report(r.deliver(1)[0], carillon.Result{Outcome: carillon.OutcomeFailure, Response: []byte("first")})
			r.flush()
			r.advance(time.Second)
			long := bytes.Repeat([]byte{'x'}, carillon.MaxResponse)
			r.report(r.deliver(1)[0], carillon.Result{Outcome: last, Response: long})
			r.flush()
			h := r.history("a")[0]
			if none {
				long = nil
			}
			if !bytes.Equal(h.Response, long) || h.Attempt != 2 {
				t.Errorf("without results %v, %v: %d bytes after attempt %d", none, last, len(h.Response), h.Attempt)
			}
		}
	}
}

// TestResultsAreSpreadOverBatches, of which each has a bound, and all are durable in the end.
func TestResultsAreSpreadOverBatches(t *testing.T) {
	const runs, most = 100, 1<<20 + carillon.MaxResponse
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", History: carillon.History{Runs: runs}})
	for range runs {
		r.trigger("a")
	}
	r.flush()
	for _, d := range r.deliver(runs) {
		if r.report(d, carillon.Result{Outcome: carillon.OutcomeSuccess,
			Response: make([]byte, carillon.MaxResponse)}) != partition.Accepted {
			t.Fatal("refused")
		}
	}
	batches := 0
	for b, seq := r.m.Batch(); b != nil; b, seq = r.m.Batch() {
		bytes := 0
		for i := range b.Runs {
			bytes += len(b.Runs[i].Response)
		}
		if batches++; bytes > most {
			t.Errorf("batch %d has %d bytes", batches, bytes)
		}
		if err := r.shard.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		r.m.Committed(seq, r.now)
	}
	if h := r.history("a"); len(h) != runs || batches < 4 || r.jobs()[0].State.Pending != 0 {
		t.Errorf("%d runs in %d batches", len(h), batches)
	}
}
