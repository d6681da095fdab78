package partition_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// relay is a rig with a job "d" that depends on "a" and "b". The test also carries the notices between the
// partitions: it delays them, loses their answers, and crashes the owner at any moment.
type relay struct {
	*rig
	inForce []delivery.Delivery
	mail    []message.Notice
	done    map[string]map[string]bool // job → ids of the runs that have succeeded
	unsure  []unsure                   // successes that may not be durable yet
	events  int
	last    map[string]int  // when a job last succeeded, or d was last seen to begin a run
	begun   map[string]bool // ids of runs of d by its schedule
	// D is paused at times; attempts are then durable, or a pause would take back one that a crash has lost.
	pausing bool
	edited  bool // d does not always depend on both
}

func (w *relay) register(of, name string) bool {
	w.t.Helper()
	w.bring(keyOf(of))
	want := message.Dependency{Of: keyOf(of), Name: name}
	exists, err := w.m.Records.Exists(want.Of), w.m.Dependencies.Register(w.now, want)
	if err != nil {
		w.t.Fatal(err)
	}
	w.flush()
	return exists
}

func (w *relay) setUp(d carillon.Job) {
	w.mustPut(carillon.Job{Name: "a", Schedule: "@yearly", FailurePolicy: carillon.Drop()})
	w.mustPut(carillon.Job{Name: "b", Schedule: "@yearly", FailurePolicy: carillon.Drop()})
	w.register("a", "d")
	w.register("b", "d")
	d.Name, d.DependsOn = "d", []string{"a", "b"}
	w.mustPut(d)
}

func (w *relay) deliverSome(n int) int {
	w.recall()
	ds := w.deliver(n)
	w.learn()
	for _, d := range ds {
		w.inForce = append(w.inForce, d)
		if d.Run.Job != "d" || d.Run.Cause != carillon.CauseSchedule || w.begun[d.Run.ID] {
			continue
		}
		w.begun[d.Run.ID] = true
		w.happened("begun")
		for _, of := range []string{"a", "b"} {
			if !w.edited && len(w.begun) > len(w.done[of]) {
				w.t.Fatalf("run %d of d after %d successes of %s: %v", len(w.begun), len(w.done[of]), of, d.Run)
			}
		}
	}
	return len(ds)
}

// happened notes when something last happened.
func (w *relay) happened(what string) {
	w.events++
	w.last[what] = w.events
}

func (w *relay) tellOne(i int, success bool) {
	d := w.inForce[i]
	w.inForce = slices.Delete(w.inForce, i, i+1)
	if !success {
		w.failRun(d)
	} else if w.succeed(d) == partition.Accepted {
		w.unsure = append(w.unsure, unsure{d.Run.Job, d.Run.ID, w.m.After()})
	}
}

// unsure is a success in the batch with a number.
type unsure struct {
	job, id string
	seq     uint64
}

// learn notes the successes that have become durable.
func (w *relay) learn() {
	w.unsure = slices.DeleteFunc(w.unsure, func(u unsure) bool {
		if u.seq > w.durable {
			return false
		}
		if !w.done[u.job][u.id] {
			w.done[u.job][u.id] = true
			w.happened(u.job)
		}
		return true
	})
}

// commit makes everything durable.
func (w *relay) commit() {
	w.flush()
	w.learn()
}

func (w *relay) Report(rt *rapid.T) {
	if len(w.inForce) > 0 {
		w.tellOne(rapid.IntRange(0, len(w.inForce)-1).Draw(rt, "which"), rapid.IntRange(0, 3).Draw(rt, "fails") > 0)
	}
	if rapid.Bool().Draw(rt, "commit") {
		w.commit()
	}
}

func (w *relay) Trigger(rt *rapid.T) {
	w.trigger(rapid.SampledFrom([]string{"a", "a", "b", "b", "d"}).Draw(rt, "job"))
	w.commit()
	w.deliverSome(rapid.IntRange(0, 4).Draw(rt, "n"))
}

func (w *relay) Collect(*rapid.T) { w.mail = append(w.mail, w.m.Dependencies.Notices(w.now, 10)...) }

func (w *relay) Post(rt *rapid.T) {
	if len(w.mail) > 0 {
		w.hand(!rapid.Bool().Draw(rt, "lost"))
	}
}

// hand delivers the oldest notice to its job. The answer may get lost.
func (w *relay) hand(back bool) {
	l := w.mail[0]
	w.mail = w.mail[1:]
	w.bring(l.Waiting())
	answer := w.m.Jobs.Release(l)
	w.commit()
	if !back {
		answer = message.Unreached
	}
	w.m.Dependencies.Answered(w.now, l, answer)
}

func (w *relay) Edit(rt *rapid.T) {
	w.mustPut(carillon.Job{Name: "d", Schedule: "@every 2s", DependsOn: []string{"b", "a"},
		Data: carillon.Bytes([]byte(rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "data")), "")})
}

func (w *relay) Pause(rt *rapid.T) {
	if w.pausing {
		w.pause("d", rapid.Bool().Draw(rt, "paused"))
	}
}

func (w *relay) Crash(*rapid.T) {
	if w.pausing {
		w.m.Attempts.KeepAll()
		w.flush()
	}
	w.learn()
	w.mail, w.unsure = nil, nil
	w.start()
}

// settle lets everything happen that can, without new successes of a, so that d catches up.
func (w *relay) settleAll() {
	for range 20 {
		for w.deliverSome(100) > 0 {
			for len(w.inForce) > 0 {
				w.tellOne(0, true)
			}
			w.commit()
		}
		w.Collect(nil)
		for len(w.mail) > 0 {
			w.hand(true)
		}
		w.advance(time.Second)
	}
}

func (w *relay) finish() {
	w.inForce = nil
	w.pause("d", false)
	w.advance(3 * time.Minute) // attempts that nobody answers for are lost
	w.settleAll()
	if w.last["a"] > w.last["begun"] && w.last["b"] > w.last["begun"] {
		w.t.Fatalf("both have succeeded since d began its last run")
	}
	before := len(w.begun)
	if j := w.job("d"); j.Status.Phase != carillon.PhaseWaiting || len(j.Status.Waiting) == 0 {
		w.t.Fatalf("phase %v, waiting for %v", j.Status.Phase, j.Status.Waiting)
	}
	w.trigger("a")
	w.trigger("b")
	w.flush()
	w.settleAll()
	if len(w.begun) != before+1 {
		w.t.Fatalf("d has begun %d runs after one more success of each", len(w.begun)-before)
	}
	for _, name := range []string{"a", "b", "d"} {
		w.bring(keyOf(name))
		if _, err := w.m.Jobs.Delete(w.now, keyOf(name)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.flush()
	w.sweepEdges()
}

// sweepEdges checks that no dependencies are left when the jobs are gone.
func (w *relay) sweepEdges() {
	for range 3 {
		w.advance(time.Minute)
		w.settleAll()
		for _, e := range w.m.Dependencies.Checkups(w.now) {
			w.bring(e.Waiting())
			if !w.m.Records.WaitsFor(e) {
				w.m.Dependencies.Forget(w.now, e)
			}
		}
		w.flush()
	}
	if e, o := w.small(store.KindDependency), w.small(store.KindNotice); len(e)+len(o) > 0 {
		w.t.Fatalf("left: %v %v", e, o)
	}
}

func newRelay(t tb, cfg partition.Config) *relay {
	return &relay{rig: newRig(t, cfg), last: map[string]int{},
		done: map[string]map[string]bool{"a": {}, "b": {}, "d": {}}, begun: map[string]bool{}}
}

// TestARunBeginsOnceForEachRoundOfSuccesses does random operations, loses notices and crashes.
func TestARunBeginsOnceForEachRoundOfSuccesses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newRelay(rt, partition.Config{WindowJobs: rapid.SampledFrom([]int{4, 64}).Draw(rt, "window")})
		w.pausing = rapid.Bool().Draw(rt, "pausing")
		w.setUp(carillon.Job{Schedule: "@every 2s"})
		actions := []func(*rapid.T){
			func(rt *rapid.T) { w.advance(time.Duration(rapid.IntRange(1, 4000).Draw(rt, "ms")) * time.Millisecond) },
			func(rt *rapid.T) { w.deliverSome(rapid.IntRange(1, 4).Draw(rt, "n")) },
			w.Report, w.Report, w.Trigger, w.Trigger, w.Collect, w.Collect, w.Post, w.Post, w.Edit, w.Pause, w.Crash,
		}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(actions)-1), 50, 150).Draw(rt, "actions") {
			actions[i](rt)
		}
		w.finish()
	})
}

func TestAWaitingJobIsInTheStoreAloneAndEnds(t *testing.T) {
	for _, schedule := range []string{"", "@every 10s"} {
		w := newRelay(t, partition.Config{})
		w.mustPut(carillon.Job{Name: "a", Schedule: "@yearly"})
		w.mustPut(carillon.Job{Name: "d", Schedule: schedule, Due: carillon.In(10 * time.Second),
			TTL: carillon.In(3 * time.Hour), DependsOn: []string{"a"}})
		w.advance(time.Hour)
		records := w.jobs()
		i := slices.IndexFunc(records, func(r store.Record) bool { return r.Name == "d" })
		if s := records[i].State; s.Phase != carillon.PhaseWaiting || s.Due != s.Expires+1 {
			t.Errorf("%q: phase %v, due %v", schedule, s.Phase, time.Unix(0, s.Due))
		}
		if n := w.m.Stats().Resident; n != 0 {
			t.Errorf("%q: %d in memory", schedule, n)
		}
		w.advance(3 * time.Hour)
		if n := len(w.jobs()); n != 1 {
			t.Errorf("%q: %d jobs left", schedule, n)
		}
		h := w.history("d")
		if len(h) != 1 || h[0].Status != carillon.RunSkipped || h[0].Reason != partition.ReasonExpired {
			t.Errorf("%q: history %+v", schedule, h)
		}
		w.register("a", "d")
		if got := w.m.Jobs.Release(message.Notice{Dependency: message.Dependency{Of: keyOf("a"),
			Name: "d"}}); got != message.Nobody {
			t.Errorf("answer %v", got)
		}
	}
}

func TestNewNamesInAfterBeginClosedAndOldOnesStay(t *testing.T) {
	w := newRelay(t, partition.Config{})
	w.setUp(carillon.Job{Schedule: "@every 2s"})
	for _, name := range []string{"b", "a", "a"} {
		w.trigger(name)
		w.flush()
		w.settleAll()
	}
	if j := w.job("d"); !slices.Equal(j.Status.Waiting, []string{"b"}) {
		t.Fatalf("waiting for %v", j.Status.Waiting)
	}
	ran := len(w.begun)
	w.pause("a", true)
	w.edited = true
	w.mustPut(carillon.Job{Name: "d", Schedule: "@every 2s", DependsOn: []string{"c", "a"}})
	if j := w.job("d"); !slices.Equal(j.Status.Waiting, []string{"c"}) {
		t.Fatalf("waiting for %v", j.Status.Waiting)
	}
	w.settleAll()
	w.bring(keyOf("d"))
	if _, err := w.m.Jobs.Patch(w.now, 0, keyOf("d"),
		carillon.Patch{Fields: []string{"depends_on"}, Job: carillon.Job{DependsOn: []string{"a"}}}, ""); err != nil {
		t.Fatal(err)
	}
	w.settleAll()
	if len(w.begun) != ran+1 {
		t.Fatalf("%d runs since", len(w.begun)-ran)
	}
}

func TestARunThatIsTakenBackGivesItsSuccessesBack(t *testing.T) {
	w := newRelay(t, partition.Config{})
	w.setUp(carillon.Job{Due: carillon.In(time.Second)})
	for _, name := range []string{"a", "b"} {
		w.trigger(name)
		w.flush()
		w.settleAll()
	}
	if len(w.begun) != 1 {
		t.Fatal("d has not run")
	}
	w.setUp(carillon.Job{Due: carillon.In(time.Hour)})
	for _, name := range []string{"a", "b"} {
		w.trigger(name)
		w.flush()
		w.settleAll()
	}
	w.advance(time.Hour) // nobody takes the run
	if j := w.job("d"); j.Status.Current == nil {
		t.Fatalf("not begun: %+v", j.Status)
	}
	w.pause("d", true)
	w.start()
	w.pause("d", false)
	w.settleAll()
	if len(w.begun) != 2 {
		t.Fatalf("d has run %d times", len(w.begun))
	}
}
