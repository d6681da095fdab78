package partition_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// sidecars is a world of one recurring job of Dapr, streams that come and go, and a node that crashes.
type sidecars struct {
	*rig
	every, retry int64
	retries      int
	has          []delivery.Delivery // at most one
	failed       int                 // failed attempts at the current time
	next         int64               // the current time
}

// get takes what is due. It must be exactly the next attempt, at exactly its time.
func (w *sidecars) get(*rapid.T) {
	ds := w.send(3)
	if len(ds) == 0 {
		return
	}
	d := ds[0]
	if len(ds)+len(w.has) > 1 {
		w.t.Fatalf("%v and %v go on beside each other", w.has, ds)
	}
	due := w.next + int64(w.failed)*w.retry
	if d.Run.Scheduled.UnixNano() != w.next || d.Run.Attempt != w.failed+1 || d.Run.Due.UnixNano() != due {
		w.t.Fatalf("attempt %d of %v, due %v; want attempt %d of %v, due %v", d.Run.Attempt, d.Run.Scheduled,
			d.Run.Due, w.failed+1, toTime(w.next), toTime(due))
	}
	w.has = ds
}

func (w *sidecars) answer(rt *rapid.T) {
	if len(w.has) == 0 {
		return
	}
	d := w.has[0]
	w.has = nil
	if rapid.Bool().Draw(rt, "success") {
		w.succeed(d)
	} else {
		w.failRun(d)
		w.failed++
		if w.flush(); w.failed <= w.retries {
			return
		}
	}
	w.flush()
	w.failed, w.next = 0, w.next+w.every
}

func (w *sidecars) end(*rapid.T) {
	w.hangUp(w.has...)
	w.has = nil
}

func (w *sidecars) crash(rt *rapid.T) {
	if rapid.Bool().Draw(rt, "stop") {
		w.m.Attempts.KeepAll()
		w.flush()
	}
	w.now += int64(rapid.IntRange(0, 40).Draw(rt, "down")) * int64(time.Second)
	w.start()
	old := w.has
	if w.has = nil; len(old) == 1 {
		if v := w.succeed(old[0]); v != partition.Stale {
			w.t.Fatalf("a result of another life: %v", v)
		}
	}
	w.flush()
}

// late checks that nothing due waits.
func (w *sidecars) late(rt *rapid.T) {
	if len(w.has) == 0 && w.next+int64(w.failed)*w.retry <= w.now {
		if w.flush(); len(w.has) == 0 {
			w.get(rt)
		}
		if len(w.has) == 0 {
			w.t.Fatalf("what is due at %v does not come", toTime(w.next+int64(w.failed)*w.retry))
		}
	}
}

// TestDaprRunsEveryTimeInOrder ends streams, crashes nodes and fails attempts. Each attempt that is handed
// out is the next one, at the time that follows from the schedule and the policy alone.
func TestDaprRunsEveryTimeInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &sidecars{rig: newRig(rt, partition.Config{WindowJobs: 4}), every: int64(7 * time.Second),
			retry: int64(rapid.IntRange(0, 9).Draw(rt,
				"retry")) * int64(time.Second), retries: rapid.IntRange(0, 3).Draw(rt, "retries")}
		w.next = epoch + w.every
		w.mustPut(daprJob(carillon.Job{Name: "a", Schedule: "@every 7s",
			FailurePolicy: carillon.Constant(time.Duration(w.retry)).WithMaxRetries(uint32(w.retries)),
			Data:          carillon.Bytes(make([]byte, rapid.SampledFrom([]int{1, 2 << 10}).Draw(rt, "size")), "")}))
		rt.Repeat(map[string]func(*rapid.T){
			"get": w.get, "answer": w.answer, "end": w.end, "crash": w.crash, "late": w.late,
			"advance": func(rt *rapid.T) {
				w.advance(time.Duration(rapid.IntRange(0, 20_000).Draw(rt, "ms")) * time.Millisecond)
			},
			"stage": func(*rapid.T) { w.m.Window.Stage(queueX, w.now, 10); w.flush() },
		})
	})
}
