package partition_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// world is a rig under random operations, and a naive model of the guarantees.
type world struct {
	*rig
	rt       *rapid.T
	crashes  int
	inForce  []delivery.Delivery // handed out, neither reported nor lost, as far as a consumer knows
	done     map[string]bool     // run ids whose success is durable
	tokens   map[string]int      // every token ever seen, and the life it is from
	life     int
	oneShots map[string]string // name → uid of those put and neither replaced nor deleted since
	pending  []func()          // what becomes true when the batch in flight is applied
}

var names = []string{"a", "b", "c/d", "c", "e"}

func (w *world) someJob() carillon.Job {
	j := carillon.Job{
		Namespace: carillon.DefaultNamespace, Name: rapid.SampledFrom(names).Draw(w.rt,
			"name"), Target: carillon.WorkerQueue("q"),
		Lease:   time.Duration(rapid.IntRange(2, 20).Draw(w.rt, "lease")) * time.Second,
		History: carillon.History{Runs: 10_000},
		Priority: rapid.SampledFrom([]carillon.Priority{carillon.PriorityNormal, carillon.PriorityCritical,
			carillon.PriorityLow}).Draw(w.rt, "priority"),
	}
	switch rapid.IntRange(0, 3).Draw(w.rt, "policy") {
	case 0:
		j.FailurePolicy = carillon.Constant(time.Duration(rapid.IntRange(1, 9).Draw(w.rt,
			"retry")) * time.Second).WithMaxRetries(2)
	case 1:
		j.FailurePolicy = carillon.Drop()
	}
	if rapid.Bool().Draw(w.rt, "recurring") {
		j.Schedule = fmt.Sprintf("@every %ds", rapid.IntRange(1, 15).Draw(w.rt, "every"))
		j.Misfire.Rule = carillon.MisfireRule(rapid.IntRange(0, 2).Draw(w.rt, "misfire"))
		j.Overlap = carillon.Overlap(rapid.IntRange(0, 3).Draw(w.rt, "overlap"))
		j.Repeats = uint64(rapid.IntRange(0, 5).Draw(w.rt, "repeats"))
	} else {
		j.Due = carillon.In(time.Duration(rapid.IntRange(0, 30).Draw(w.rt, "in")) * time.Second)
	}
	return j
}

// whenDurable runs f once the outcome of the last call may be told.
func (w *world) whenDurable(f func()) {
	if w.m.After() <= w.durable {
		f()
		return
	}
	w.pending = append(w.pending, f)
}

func (w *world) commit() {
	w.flush()
	for _, f := range w.pending {
		f()
	}
	w.pending = nil
}

func (w *world) Put(rt *rapid.T) {
	w.rt = rt
	j := w.someJob()
	put, err := w.put(j)
	if err != nil {
		rt.Fatal(err)
	}
	w.whenDurable(func() {
		delete(w.oneShots, j.Name)
		if !j.Recurring() {
			w.oneShots[j.Name] = put.Job.Status.UID.String()
		}
	})
	w.commit()
}

func (w *world) Delete(rt *rapid.T) {
	w.rt = rt
	key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: rapid.SampledFrom(names).Draw(rt, "name")}
	w.bring(key)
	if _, err := w.m.Jobs.Delete(w.now, key); err != nil {
		return
	}
	w.whenDurable(func() { delete(w.oneShots, key.Name) })
	w.commit()
}

func (w *world) Trigger(rt *rapid.T) {
	w.rt = rt
	key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: rapid.SampledFrom(names).Draw(rt, "name")}
	w.bring(key)
	if _, err := w.m.Jobs.Trigger(w.now, key, carillon.TriggerOptions{}); err == nil {
		w.commit()
	}
}

func (w *world) Pause(rt *rapid.T) {
	w.rt = rt
	key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: rapid.SampledFrom(names).Draw(rt, "name")}
	w.bring(key)
	if _, err := w.m.Jobs.SetPaused(w.now, key,
		carillon.PauseOptions{Paused: rapid.Bool().Draw(rt, "paused")}); err == nil {
		w.commit()
	}
}

func (w *world) Advance(rt *rapid.T) {
	w.advance(time.Duration(rapid.IntRange(1, 20_000).Draw(rt, "ms")) * time.Millisecond)
}

func (w *world) Deliver(rt *rapid.T) {
	w.recall()
	for _, d := range w.deliver(rapid.IntRange(1, 4).Draw(rt, "n")) {
		w.got(d)
	}
}

// DeliverFirst hands out attempts that must be durable first. collect takes them when they are.
func (w *world) DeliverFirst(rt *rapid.T) {
	w.recall()
	w.step()
	w.m.Deliver(nil, w.now, queueQ, rapid.IntRange(1, 4).Draw(rt, "n"), true, nil)
	if rapid.Bool().Draw(rt, "commit") {
		w.commit()
	}
	w.collect()
}

// collect takes the pending deliveries that may be handed out, and checks that the store has them.
func (w *world) collect() []delivery.Delivery {
	ds, _ := w.m.Attempts.Granted(nil, nil, w.now)
	for _, d := range ds {
		id, err := store.ParseRunID(d.Run.ID)
		if err != nil {
			w.t.Fatal(err)
		}
		ref, ok, err := w.shard.Live(context.Background(), id)
		if err != nil || !ok {
			w.t.Fatalf("%s leaves and is not in the store: %v", d.Run.Job, err)
		}
		if s := w.read([]store.Ref{ref})[0].State; s.Phase != carillon.PhaseRunning ||
			s.Run.Attempt != d.Run.Attempt {
			w.t.Fatalf("attempt %d of %s leaves, the store has %v %d", d.Run.Attempt, d.Run.Job,
				s.Phase, s.Run.Attempt)
		}
		w.got(d)
	}
	return ds
}

// got checks one delivery.
func (w *world) got(d delivery.Delivery) {
	if w.done[d.Run.ID] {
		w.t.Fatalf("I4: run %s of %s is delivered after its success was acknowledged", d.Run.ID, d.Run.Job)
	}
	if life, seen := w.tokens[d.Run.Token]; seen && (life == w.life || d.Run.InDoubt == 0) {
		w.t.Fatalf("token %s is handed out twice", d.Run.Token)
	}
	w.tokens[d.Run.Token] = w.life
	w.inForce = append(w.inForce, d)
}

func (w *world) Report(rt *rapid.T) {
	if len(w.inForce) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.inForce)-1).Draw(rt, "which")
	d := w.inForce[i]
	if rapid.IntRange(0, 4).Draw(rt, "keep") > 0 { // sometimes the result is sent again later
		w.inForce = append(w.inForce[:i:i], w.inForce[i+1:]...)
	}
	w.tell(d, rapid.IntRange(0, 3).Draw(rt, "fail") > 0)
	if rapid.Bool().Draw(rt, "commit") {
		w.commit()
	}
}

func (w *world) tell(d delivery.Delivery, success bool) {
	if !success {
		w.failRun(d)
		return
	}
	w.m.Begin()
	if w.succeed(d) == partition.Accepted {
		w.whenDurable(func() { w.done[d.Run.ID] = true })
	}
}

func (w *world) Stage(rt *rapid.T) {
	w.m.Window.Stage(queueQ, w.now, 1000)
	if rapid.Bool().Draw(rt, "commit") {
		w.commit()
	}
}

func (w *world) Crash(*rapid.T) {
	w.crashes++
	w.pending = nil
	w.life++
	w.start()
}

// drain lets everything that is due run to its end.
func (w *world) drain() {
	w.commit()
	for i := 0; ; {
		w.recall()
		ds := w.deliver(100)
		for _, d := range ds {
			w.got(d)
		}
		ds = append(ds, w.collect()...)
		for _, d := range ds {
			w.tell(d, true)
		}
		w.commit()
		switch {
		case len(ds) > 0:
		case i == 200:
			return
		default:
			i++
			w.advance(time.Second)
		}
	}
}

// finish checks what must be true at the end.
func (w *world) finish() {
	for _, n := range names {
		key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: n}
		w.bring(key)
		_, _ = w.m.Jobs.SetPaused(w.now, key, carillon.PauseOptions{}) // unknown names are fine
	}
	w.drain()
	for name, uid := range w.oneShots {
		ended := false
		for _, h := range w.history(name) {
			ended = ended || (h.ID.UID.String() == uid && h.ID.Cause == carillon.CauseSchedule)
		}
		if !ended {
			w.t.Fatalf("I2: one-shot %s was acknowledged and has not run", name)
		}
	}
	for _, r := range w.jobs() {
		if r.State.Next == 0 {
			w.t.Fatalf("I12: %s is left behind: %+v", r.Name, r.State)
		}
		w.bring(r.Key)
		if _, err := w.m.Jobs.Delete(w.now, r.Key); err != nil {
			w.t.Fatal(err)
		}
	}
	w.commit()
	w.nothingLeft()
}

func (w *world) nothingLeft() {
	if s := w.m.Stats(); s != (partition.Stats{}) {
		w.t.Fatalf("I12: left in memory: %+v", s)
	}
	ctx := context.Background()
	for class := range uint8(4) {
		if due, err := w.shard.Due(ctx, store.DueQuery{Priority: class, Until: 1 << 62, Limit: 10}); err != nil ||
			len(due) > 0 {
			w.t.Fatalf("I12: due entries left: %v %v", due, err)
		}
	}
	if st, err := w.shard.Staged(ctx, store.StagedQuery{Queue: queueQ.String(), Limit: 10}); err != nil ||
		len(st) > 0 {
		w.t.Fatalf("I12: staged entries left: %v %v", st, err)
	}
}

// TestGuarantees runs random operations, crashes included, and checks the guarantees.
func TestGuarantees(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{
			rig: newRig(rt, partition.Config{WindowJobs: rapid.SampledFrom([]int{4, 64}).Draw(rt, "window")}), rt: rt,
			done: map[string]bool{}, tokens: map[string]int{}, oneShots: map[string]string{},
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": w.Put, "delete": w.Delete, "trigger": w.Trigger, "pause": w.Pause, "advance": w.Advance,
			"deliver": w.Deliver, "deliver first": w.DeliverFirst, "report": w.Report, "stage": w.Stage,
			"crash": w.Crash,
		})
		w.finish()
	})
}

// TestEveryScheduledTimeIsAccountedFor runs one interval job through delays, failures and crashes. Each of
// its times runs or has a record that says why not, never both.
func TestEveryScheduledTimeIsAccountedFor(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{rig: newRig(rt, partition.Config{}), rt: rt, done: map[string]bool{},
			tokens: map[string]int{}, oneShots: map[string]string{}}
		every := time.Duration(rapid.IntRange(1, 10).Draw(rt, "every")) * time.Second
		w.mustPut(carillon.Job{
			Name: "a", Schedule: "@every " + every.String(), Lease: 5 * time.Second,
			History: carillon.History{Runs: 10_000},
			Misfire: carillon.Misfire{Rule: carillon.MisfireRule(rapid.IntRange(0, 2).Draw(rt, "misfire"))},
			Overlap: carillon.Overlap(rapid.IntRange(0, 3).Draw(rt, "overlap")),
		})
		rt.Repeat(map[string]func(*rapid.T){
			"advance": w.Advance, "deliver": w.Deliver, "deliver first": w.DeliverFirst, "report": w.Report,
			"stage": w.Stage, "crash": w.Crash, "pause": w.Pause,
		})
		key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: "a"}
		w.bring(key)
		if _, err := w.m.Jobs.SetPaused(w.now, key, carillon.PauseOptions{}); err != nil {
			rt.Fatal(err)
		}
		w.drain()
		w.bring(key)
		j, err := w.m.Records.Job(key)
		if err != nil {
			rt.Fatal(err)
		}
		last := (j.Status.NextRun.UnixNano() - epoch) / int64(every)
		if j.Status.Current != nil {
			rt.Fatalf("still going: %+v", j.Status.Current)
		}
		accounted(rt, w.rig, "a", every, int(last)-1)
	})
}
