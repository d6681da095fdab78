package partition_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// workshop is a world in which jobs are edited at any moment, batches are applied late, and consumers come
// and go.
type workshop struct {
	*world
	puts    uint64
	content map[string]map[uint64]uint64 // name → number of a put → the batch that holds it
}

var workQueues = []delivery.Queue{queueNamed("q"), queueNamed("r")}

// numbered is some job whose data begin with the number of its put.
func (w *workshop) numbered() carillon.Job {
	j := w.someJob()
	w.puts++
	j.Data.Bytes = make([]byte, rapid.SampledFrom([]int{8, 8, 2 << 10}).Draw(w.rt, "size"))
	binary.BigEndian.PutUint64(j.Data.Bytes, w.puts)
	j.Target = carillon.WorkerQueue(rapid.SampledFrom([]string{"q", "r"}).Draw(w.rt, "queue"))
	if j.Recurring() {
		j.Jitter = time.Duration(rapid.IntRange(0, 1).Draw(w.rt, "jitter")) * time.Second
		if rapid.IntRange(0, 3).Draw(w.rt, "limited") == 0 {
			j.TTL = carillon.In(time.Minute)
		}
	}
	if j.FailurePolicy.Kind != carillon.PolicyDrop && rapid.Bool().Draw(w.rt, "dead") {
		j.FailurePolicy.OnExhausted = carillon.ExhaustedDead
	}
	j.Paused = rapid.IntRange(0, 9).Draw(w.rt, "paused") == 0
	return j
}

func (w *workshop) Put(rt *rapid.T) {
	w.rt = rt
	j, n := w.numbered(), w.puts
	w.m.Begin()
	put, err := w.put(j)
	if err != nil {
		rt.Fatal(err)
	}
	delete(w.oneShots, j.Name) // until its put is durable it may run or not
	if w.content[j.Name] == nil {
		w.content[j.Name] = map[uint64]uint64{}
	}
	w.content[j.Name][n] = w.m.After()
	w.whenDurable(func() {
		if !j.Recurring() && n == w.puts {
			w.oneShots[j.Name] = put.Job.Status.UID.String()
		}
	})
	w.maybeCommit(rt)
}

func (w *workshop) maybeCommit(rt *rapid.T) {
	switch rapid.IntRange(0, 3).Draw(rt, "commit") {
	case 0: // later
	case 1:
		w.step()
		w.take() // on its way
	default:
		w.commit()
	}
}

func (w *workshop) Delete(rt *rapid.T) {
	w.rt = rt
	key := keyOf(rapid.SampledFrom(names).Draw(rt, "name"))
	w.bring(key)
	w.m.Begin()
	if _, err := w.m.Jobs.Delete(w.now, key); err == nil {
		delete(w.oneShots, key.Name)
		w.whenDurable(func() { delete(w.oneShots, key.Name) })
	}
	w.maybeCommit(rt)
}

func (w *workshop) Trigger(rt *rapid.T) {
	key := keyOf(rapid.SampledFrom(names).Draw(rt, "name"))
	w.bring(key)
	_, _ = w.m.Jobs.Trigger(w.now, key, carillon.TriggerOptions{}) // unknown names are fine
	w.maybeCommit(rt)
}

func (w *workshop) Pause(rt *rapid.T) {
	key := keyOf(rapid.SampledFrom(names).Draw(rt, "name"))
	w.bring(key)
	_, _ = w.m.Jobs.SetPaused(w.now, key,
		carillon.PauseOptions{Paused: rapid.Bool().Draw(rt, "paused"),
			Note: rapid.SampledFrom([]string{"", "why"}).Draw(rt, "note")})
	w.maybeCommit(rt)
}

func (w *workshop) Deliver(rt *rapid.T) {
	w.deliverAll(rapid.IntRange(1, 4).Draw(rt, "n"))
}

func (w *workshop) deliverAll(n int) (out []delivery.Delivery) {
	for _, q := range workQueues {
		for _, d := range w.deliverFrom(q, n) {
			if w.now < d.Run.Due.UnixNano() || w.now < d.Run.Scheduled.UnixNano() {
				w.t.Fatalf("I1: %s is early", d.Run.Job)
			}
			if d.Queue != q || delivery.QueueOf(d.Run.Namespace, d.Target) != q {
				w.t.Fatalf("%s of queue %v is delivered to %v", d.Run.Job, delivery.QueueOf(d.Run.Namespace, d.Target), q)
			}
			n := binary.BigEndian.Uint64(d.Run.Data.Bytes)
			if seq, ok := w.content[d.Run.Job][n]; !ok || seq > w.durable {
				w.t.Fatalf("%s is handed out with the content of put %d, which is not durable", d.Run.Job, n)
			}
			w.got(d)
			out = append(out, d)
		}
	}
	return out
}

func (w *workshop) Stage(rt *rapid.T) {
	w.m.Window.Stage(rapid.SampledFrom(workQueues).Draw(rt, "queue"), w.now, 1000)
	w.maybeCommit(rt)
}

func (w *workshop) Crash(rt *rapid.T) {
	for _, puts := range w.content {
		for n, seq := range puts {
			if puts[n] = 0; seq > w.durable {
				delete(puts, n)
			}
		}
	}
	w.world.Crash(rt)
}

// some returns an attempt that a consumer believes to have.
func (w *workshop) some(rt *rapid.T) (tok message.Token, ok bool) {
	if len(w.inForce) == 0 {
		return tok, false
	}
	d := rapid.SampledFrom(w.inForce).Draw(rt, "attempt")
	tok, err := message.ParseToken(d.Run.Token, w.store.Meta().MACKey)
	if err != nil {
		rt.Fatal(err)
	}
	if ref, here := w.m.Records.Holds(tok.Run); here && !w.m.Records.Has(ref) {
		w.m.Load(w.read([]store.Ref{ref, ref.Job()}), w.now)
	}
	return tok, true
}

func (w *workshop) Beat(rt *rapid.T) {
	if tok, ok := w.some(rt); ok {
		w.m.Attempts.Heartbeat(w.now, tok)
	}
}

func (w *workshop) Lose(rt *rapid.T) {
	if tok, ok := w.some(rt); ok {
		w.m.Lost(w.now, tok, "gone")
		w.maybeCommit(rt)
	}
}

// Undeliver hands out a run and withdraws it.
func (w *workshop) Undeliver(rt *rapid.T) {
	q := rapid.SampledFrom(workQueues).Draw(rt, "queue")
	for _, d := range w.deliverFrom(q, 1) {
		tok, err := message.ParseToken(d.Run.Token, w.store.Meta().MACKey)
		if err != nil {
			rt.Fatal(err)
		}
		w.m.Attempts.Undelivered(w.now, tok)
	}
	w.maybeCommit(rt)
}

func (w *workshop) Cancel(rt *rapid.T) {
	if tok, ok := w.some(rt); ok {
		w.m.Jobs.Cancel(w.now, tok.Run)
		w.maybeCommit(rt)
	}
}

func (w *workshop) Redrive(rt *rapid.T) {
	name := rapid.SampledFrom(names).Draw(rt, "name")
	w.commit()
	for _, h := range w.history(name) {
		if h.Status != carillon.RunDead {
			continue
		}
		w.bring(keyOf(name))
		if ref, ok, err := w.shard.Live(context.Background(), h.ID); err == nil && ok {
			w.m.Load(w.read([]store.Ref{ref}), w.now)
		}
		if _, err := w.m.Jobs.Redrive(w.now, h); err != nil {
			rt.Fatalf("redrive: %v", err)
		}
		break
	}
	w.maybeCommit(rt)
}

func (w *workshop) finish() {
	w.commit()
	for _, n := range names {
		w.bring(keyOf(n))
		_, _ = w.m.Jobs.SetPaused(w.now, keyOf(n), carillon.PauseOptions{}) // unknown names are fine
	}
	for idle := 0; idle <= 200; {
		w.commit()
		ds := w.deliverAll(100)
		for _, d := range ds {
			w.tell(d, true)
		}
		if w.commit(); len(ds) > 0 {
			continue
		}
		if idle++; idle <= 200 {
			w.advance(time.Second)
		}
	}
	for name, uid := range w.oneShots {
		ended := false
		for _, h := range w.history(name) {
			ended = ended || (h.ID.UID.String() == uid && h.ID.Cause == carillon.CauseSchedule)
		}
		if !ended {
			w.t.Fatalf("I2: one-shot %s was acknowledged and has not run", name)
		}
	}
	w.clear()
}

// clear deletes what never ends by itself, and looks for what is left behind.
func (w *workshop) clear() {
	for _, r := range w.jobs() {
		if r.State.Next == 0 || r.State.Pending != 0 || r.State.Run.Live {
			w.t.Fatalf("I12: %s is left behind: %+v", r.Name, r.State)
		}
		w.bring(r.Key)
		if _, err := w.m.Jobs.Delete(w.now, r.Key); err != nil {
			w.t.Fatal(err)
		}
	}
	w.commit()
	for range 3 { // records of queues in which nothing is parked
		w.deliverAll(1)
		w.commit()
	}
	w.nothingLeft()
	small, err := w.shard.MetaRecords(context.Background(), store.MetaQuery{Kind: store.KindParked, Limit: 10})
	if err != nil || len(small) > 0 {
		w.t.Fatalf("I12: notes of parked runs left: %v %v", small, err)
	}
}

// TestGuaranteesUnderEdits edits, cancels, redrives and moves jobs between queues, wherever their runs are,
// crashes included, and checks the guarantees.
func TestGuaranteesUnderEdits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &workshop{content: map[string]map[uint64]uint64{}, world: &world{
			rig: newRig(rt, partition.Config{
				WindowJobs:  rapid.SampledFrom([]int{4, 64}).Draw(rt, "window"),
				WindowBytes: rapid.SampledFrom([]int{3 << 10, 8 << 20}).Draw(rt, "bytes"),
			}), rt: rt,
			done: map[string]bool{}, tokens: map[string]int{}, oneShots: map[string]string{},
		}}
		rt.Repeat(map[string]func(*rapid.T){
			"put": w.Put, "delete": w.Delete, "trigger": w.Trigger, "pause": w.Pause, "advance": w.Advance,
			"deliver": w.Deliver, "report": w.Report, "stage": w.Stage, "crash": w.Crash, "beat": w.Beat,
			"lose": w.Lose, "undeliver": w.Undeliver, "cancel": w.Cancel, "redrive": w.Redrive,
		})
		w.finish()
	})
}
