package scenario_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/doctor"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/internal/repartition"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/memory"
)

// contents is what users see of a store, whatever its number of partitions: jobs and pending runs, finished
// runs, settings, by name.
type contents map[string]string

// contentsOf reads a store by itself, without what is recounted.
func contentsOf(t *testing.T, s store.Store) contents {
	t.Helper()
	all := contents{}
	for p := range s.Meta().Partitions {
		sh, err := s.Shard(p, store.Term{})
		must(t, err)
		must(t, transfer.Contents(t.Context(), sh, func(b *store.Batch) error {
			for _, r := range b.Puts {
				for i := range r.State.Waits {
					r.State.Waits[i].By.Partition = 0
				}
				all[fmt.Sprintf("record %v %d", r.Key, r.Seq)] = string(codec.AppendState(bytes.Clone(r.Spec), &r.State))
			}
			for _, r := range b.Runs {
				r.ID.Partition = 0
				all[fmt.Sprintf("run %v %s %d", r.Key, r.ID, r.Finished)] = string(codec.AppendRun(nil, &r))
			}
			for _, m := range b.MetaRecords {
				switch m.Kind {
				case store.KindNamespace, store.KindCalendar, store.KindBackfill, store.KindQueue, store.KindLimited,
					store.KindDependency, store.KindParked:
					all[fmt.Sprintf("kind %c %q", m.Kind, m.Key)] = string(m.Value)
				}
			}
			return nil
		}))
	}
	return all
}

// sound has the doctor examine a store.
func sound(t *testing.T, s store.Store, when string) {
	t.Helper()
	r, err := doctor.Look(t.Context(), s, doctor.Options{Most: 5})
	must(t, err)
	if len(r.Kinds) > 0 {
		t.Fatalf("%s: %+v", when, r.Findings)
	}
}

// staying is a store in memory that is there when the command that has filled it has closed it.
type staying struct{ *memory.Store }

// Close is for [store.Store].
func (staying) Close() error { return nil }

// movedTo moves the store to a number of partitions, perhaps the same, and compares both.
func movedTo(t *testing.T, s store.Store, n int) store.Store {
	t.Helper()
	sound(t, s, "before")
	reshape := repartition.To(n)
	if n == s.Meta().Partitions {
		reshape = transfer.AsIs
	}
	var to store.Store
	_, err := transfer.MigrateAs(t.Context(), s, func(_ context.Context, o store.Options) (store.Store, error) {
		to = staying{memory.New(memory.Options{Partitions: o.Partitions, MACKey: o.MACKey, Epoch: o.Epoch})}
		return to, nil
	}, reshape, nil)
	must(t, err)
	allocated(t, to)
	sound(t, to, fmt.Sprintf("moved from %d to %d partitions", s.Meta().Partitions, n))
	was, is := contentsOf(t, s), contentsOf(t, to)
	if !maps.Equal(was, is) {
		for name := range was {
			if is[name] != was[name] {
				t.Errorf("%s is %q, and was %q", name, is[name], was[name])
			}
		}
		t.Fatalf("%d things were there, and %d are", len(was), len(is))
	}
	return to
}

// allocated checks that the homes of limits have allocated to each partition the permits that its attempts
// hold, no more and no less, and returns how many.
func allocated(t *testing.T, s store.Store) (all int) {
	t.Helper()
	n := s.Meta().Partitions
	held, is := map[string]int{}, map[string]int{}
	for p := range n {
		sh, err := s.Shard(p, store.Term{})
		must(t, err)
		must(t, transfer.Contents(t.Context(), sh, func(b *store.Batch) error {
			for _, m := range b.MetaRecords {
				switch m.Kind {
				case store.KindLimited:
					h, ok := permitrecord.ParseHeld(&m)
					if !ok {
						t.Errorf("%q names no limit", m.Key)
					}
					a := permitrecord.Allocation{Limit: h.Limit, Partition: p}
					held[fmt.Sprint(permitrecord.HomeOf(h.Limit, n), a.Record().Key)]++
					all++
				case store.KindAllocation:
					is[fmt.Sprint(p, m.Key)] = int(m.Value[0]) // of fewer than 128
				}
			}
			return nil
		}))
	}
	if !maps.Equal(held, is) {
		t.Errorf("permits are allocated as %v, and held are %v", is, held)
	}
	return all
}

// moves is a world whose store moves.
type moves struct {
	*world
	dice   *rand.Rand
	worker *worker
	n      int // things that were done
	// So many deliveries were reported again.
	reported int
	killed   bool
	since    map[string]time.Time // first due times of jobs that run all their times
	once     []string             // jobs that run once
	after    []string             // jobs that run after others
	moved    time.Time            // when the last node has started
}

// move ends the node, in order or not, and starts one with a store of another number of partitions. Now and
// then it moves there and back first.
func (m *moves) move(killed bool) {
	m.t.Helper()
	if killed {
		m.killed = true
		m.kill()
	} else {
		m.stop()
	}
	<-m.worker.ended
	sleep(30 * time.Second) // the leases of a killed node end
	was := m.disk.Meta().Partitions
	n := 1 + m.dice.IntN(9)
	if n == was {
		n = 10
	}
	if m.dice.IntN(2) == 0 {
		there := movedTo(m.t, m.disk, n)
		m.disk = movedTo(m.t, there, was)
	}
	m.disk = movedTo(m.t, m.disk, n)
	m.start()
	m.moved = time.Now()
	m.join()
}

// join has a worker join, which first reports what those before it have done: they may have been cut off. Their
// tokens are from before the store has moved.
func (m *moves) join() {
	m.t.Helper()
	m.worker = m.work(fmt.Sprint("worker of ", m.n), func(r carillon.Run) []carillon.Result {
		time.Sleep(time.Duration(len(r.Job)%7) * 300 * time.Millisecond)
		return outcome(r)
	})
	all := m.deliveries("")
	for _, d := range all[m.reported:] {
		m.worker.send(carillon.WorkRequest{Results: outcome(d.Run)})
	}
	m.reported = len(all)
}

// outcome is how an attempt ends.
func outcome(r carillon.Run) []carillon.Result {
	if strings.HasPrefix(r.Job, "fails/") && r.Attempt == 1 {
		return fails(r)
	}
	return done(r)
}

// do does something that users do.
func (m *moves) do() {
	m.t.Helper()
	ctx, now := m.t.Context(), time.Now()
	m.n++
	name := fmt.Sprintf("%d/%x", m.n, m.dice.Uint32())
	some := carillon.Key{Namespace: carillon.DefaultNamespace, Name: "each/0"}
	switch m.dice.IntN(12) {
	case 0:
		m.once = append(m.once, name)
		m.put(carillon.Job{Name: name, Due: carillon.At(now.Add(time.Duration(m.dice.IntN(90)) * time.Second))})
	case 1:
		m.once = append(m.once, "fails/"+name)
		m.put(carillon.Job{Name: "fails/" + name, FailurePolicy: carillon.Exponential(time.Second),
			Due: carillon.At(now.Add(time.Duration(m.dice.IntN(40)) * time.Second))})
	case 2:
		m.once = append(m.once, name)
		m.put(carillon.Job{Name: name, ConcurrencyKey: fmt.Sprint("key", m.dice.IntN(2))})
	case 3:
		m.put(carillon.Job{Name: name, Target: carillon.WorkerQueue(fmt.Sprint("nobody", m.dice.IntN(3)))})
	case 4:
		var all []carillon.Job
		for i := range 1 + m.dice.IntN(20) {
			m.once = append(m.once, fmt.Sprint(name, "/", i))
			all = append(all, carillon.Job{Name: fmt.Sprint(name, "/", i), Target: carillon.WorkerQueue("q"),
				Due: carillon.At(now.Add(time.Duration(m.dice.IntN(60)) * time.Second))})
		}
		_, err := m.node.PutJobs(ctx, all)
		must(m.t, err)
	case 5:
		_, err := m.node.TriggerJob(ctx, some)
		must(m.t, err)
	case 6:
		every := time.Duration(1+m.dice.IntN(9)) * time.Second
		m.put(carillon.Job{Name: "all/" + name, Schedule: "@every " + every.String(), Due: carillon.At(now.Add(every)),
			Misfire: carillon.Misfire{Rule: carillon.MisfireAll}, Labels: map[string]string{"every": every.String()}})
		m.since["all/"+name] = now.Add(every)
	case 7:
		m.after = append(m.after, name)
		m.put(carillon.Job{Name: name, Schedule: "@every 7s", DependsOn: []string{"each/0", "each/1"}})
	case 8:
		_, err := m.node.StartBackfill(ctx, some, carillon.BackfillSpec{From: now.Add(-time.Minute), To: now, Rate: 0.5})
		must(m.t, err)
	case 9:
		if _, err := m.node.PauseQueue(ctx, carillon.QueueKey{Name: fmt.Sprint("nobody", m.dice.IntN(3))}, "note"); err != nil {
			m.t.Fatal(err)
		}
	case 10:
		_, err := m.node.PutCalendar(ctx, carillon.Calendar{Name: fmt.Sprint("c", m.dice.IntN(9)), Dates: []string{"12-25/12-26"}})
		must(m.t, err)
		_, err = m.node.PutNamespace(ctx, carillon.Namespace{Name: fmt.Sprint("ns", m.dice.IntN(9)),
			ConcurrencyLimits: map[string]int{"k": 3}})
		must(m.t, err)
	default:
		_, err := m.node.DeleteJob(ctx, carillon.Key{Namespace: carillon.DefaultNamespace, Name: "each/2"})
		if err != nil && !errors.Is(err, carillon.NotFound) {
			m.t.Fatal(err)
		}
		m.put(carillon.Job{Name: "each/2", Schedule: "@every 3s"})
	}
}

// attempted is an attempt of a run, whatever its id says of partitions.
type attempted struct {
	run     string
	attempt int
}

// judge holds what workers saw against what was to be: nothing twice but for what a kill leaves in doubt,
// nothing early, and nothing left out of those jobs that make up for all their times.
func (m *moves) judge() {
	m.t.Helper()
	seen, ran := map[attempted]int{}, map[string]map[int64]bool{}
	for _, d := range m.deliveries("") {
		id, err := store.ParseRunID(d.ID)
		must(m.t, err)
		a := attempted{id.In(1).String(), d.Attempt}
		if seen[a]++; seen[a] > 1 && !m.killed {
			m.t.Errorf("attempt %d of a run of %s at %v was made %d times", d.Attempt, d.Job, d.Scheduled, seen[a])
		}
		if d.Attempt > 1 && !strings.HasPrefix(d.Job, "fails/") {
			m.t.Errorf("a run of %s at %v, whose attempts succeed, has a second one", d.Job, d.Scheduled)
		}
		if d.At.Before(d.Scheduled) {
			m.t.Errorf("a run of %s at %v came at %v", d.Job, d.Scheduled, d.At)
		}
		if ran[d.Job] == nil {
			ran[d.Job] = map[int64]bool{}
		}
		ran[d.Job][d.Scheduled.UnixNano()] = true
	}
	for _, job := range m.once {
		if len(m.deliveries(job)) == 0 || !m.gone(job) {
			m.t.Errorf("%s has had %d attempts, and is gone: %t", job, len(m.deliveries(job)), m.gone(job))
		}
	}
	for _, job := range m.after {
		if all := m.deliveries(job); len(all) == 0 || all[len(all)-1].At.Before(m.moved.Add(time.Minute)) {
			m.t.Errorf("%s, which runs after others, has run %d times, and no more since the store has moved", job, len(all))
		}
	}
	for job, at := range m.since {
		every, err := time.ParseDuration(m.job(job).Labels["every"])
		must(m.t, err)
		for ; at.Before(time.Now().Add(-time.Minute)); at = at.Add(every) {
			if !ran[job][at.UnixNano()] {
				m.t.Errorf("%s has not run at %v", job, at)
			}
		}
	}
}

// TestS20AnotherNumberOfPartitions: a store moves to another number of partitions again and again, whatever was
// going on. Everything is there each time, the doctor finds nothing, and what is due runs once.
func TestS20AnotherNumberOfPartitions(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dice := rand.New(rand.NewPCG(seed, 20))
				w := &world{t: t, disk: memory.New(memory.Options{Partitions: 1 + dice.IntN(9)})}
				m := &moves{world: w, dice: dice, since: map[string]time.Time{}}
				w.start()
				m.join()
				for i := range 3 {
					w.put(carillon.Job{Name: fmt.Sprint("each/", i), Schedule: "@every 5s"})
				}
				_, err := w.node.PutNamespace(t.Context(), carillon.Namespace{Name: carillon.DefaultNamespace,
					ConcurrencyLimits: map[string]int{"key0": 1, "key1": 2}})
				must(t, err)
				for range 5 {
					for range 10 + dice.IntN(20) {
						m.do()
						sleep(time.Duration(dice.IntN(3000)) * time.Millisecond)
					}
					m.move(seed%2 == 1 && dice.IntN(2) == 0)
				}
				sleep(3 * time.Minute)
				m.judge()
				w.stop()
				sleep(10 * time.Second) // what the worker does comes to its end
				sound(t, w.disk, "in the end")
			})
		})
	}
}

// TestS20AttemptsGoOn: a worker that has an attempt while the store moves to another number of partitions
// reports it with its token from before, once; ids of runs from before lead to their runs; and what is reported
// of an attempt that was lost meanwhile is refused.
func TestS20AttemptsGoOn(t *testing.T) {
	for _, n := range []int{1, 3, 4, 64} {
		inBubble(t, func(t *testing.T, w *world) {
			_, err := w.node.PutNamespace(t.Context(), carillon.Namespace{Name: carillon.DefaultNamespace,
				ConcurrencyLimits: map[string]int{"a": 20, "b": 30}})
			must(t, err)
			old := w.work("old", never)
			for i := range 10 {
				w.put(carillon.Job{Name: fmt.Sprint("kept/", i), Lease: time.Hour, ConcurrencyKey: "a"})
				w.put(carillon.Job{Name: fmt.Sprint("lost/", i), Lease: 10 * time.Second, ConcurrencyKey: "b"})
			}
			w.put(carillon.Job{Name: "filled", Schedule: "@every 1h", Target: carillon.WorkerQueue("nobody")})
			fill, err := w.node.StartBackfill(t.Context(), key("filled"), carillon.BackfillSpec{
				From: time.Now().Add(-5 * time.Hour), To: time.Now()})
			must(t, err)
			sleep(5 * time.Second)
			w.stop()
			<-old.ended
			sleep(time.Minute)
			w.disk = movedTo(t, w.disk, n)
			if held := allocated(t, w.disk); held != 20 {
				t.Errorf("%d permits are held", held)
			}
			w.start()
			had := slices.Clone(w.deliveries(""))
			w.work("new", done)
			sleep(10 * time.Second)
			back := w.connect("back", hello{queues: []string{"other"}}, never)
			for i, d := range had {
				if i%4 < 2 { // as a receiver does that answers later
					err := w.node.CompleteRun(t.Context(), "", success(d.Run))
					if lost := strings.HasPrefix(d.Job, "lost/"); lost && !errors.Is(err, carillon.FailedPrecondition) || !lost && err != nil {
						t.Errorf("%d partitions: %s is completed: %v", n, d.Job, err)
					}
					continue
				}
				back.send(carillon.WorkRequest{Results: []carillon.Result{success(d.Run)}})
			}
			sleep(10 * time.Second)
			if b, err := w.node.GetBackfill(t.Context(), "", fill.ID); err != nil || b.Total != fill.Total {
				t.Errorf("%d partitions: the backfill %+v, %v", n, b, err)
			}
			_, err = w.node.CancelBackfill(t.Context(), "", fill.ID)
			must(t, err)
			_, err = w.node.DeleteJob(t.Context(), key("filled"))
			must(t, err)
			if acks, stale := back.told(); acks+stale != 10 {
				t.Errorf("%d partitions: %d results were taken and %d refused", n, acks, stale)
			}
			for _, d := range had {
				r, err := w.node.GetRun(t.Context(), "", d.ID)
				must(t, err)
				want := 1
				if strings.HasPrefix(d.Job, "lost/") {
					want = 2
				}
				if r.Status != carillon.RunSucceeded || r.Attempt != want || len(w.deliveries(d.Job)) != want {
					t.Errorf("%d partitions: %s has the status %v after attempt %d, %d deliveries", n, d.Job, r.Status, r.Attempt,
						len(w.deliveries(d.Job)))
				}
			}
			if len(had) != 20 {
				t.Errorf("%d attempts", len(had))
			}
			w.empty()
		})
	}
}

// TestS20InDoubt: what a node that was killed may have handed out is made again in a store of another number of
// partitions, as the same attempt, though its jobs are to skip what they missed. A report of it is taken, too.
// What it cannot have handed out is skipped.
func TestS20InDoubt(t *testing.T) {
	for _, counts := range [][]int{{1}, {9}, {3, 7}, {8, 2, 4}} {
		inBubble(t, func(t *testing.T, w *world) {
			due := time.Now().Add(time.Minute)
			skips := carillon.Misfire{Rule: carillon.MisfireSkip}
			for i := range 30 {
				w.put(carillon.Job{Name: fmt.Sprint("had/", i), Schedule: "@every 1h", Due: carillon.At(due), Misfire: skips})
				w.put(carillon.Job{Name: fmt.Sprint("missed/", i), Schedule: "@every 1h",
					Due: carillon.At(due.Add(2 * time.Minute)), Misfire: skips})
			}
			w.work("old", never)
			sleep(time.Until(due) + 500*time.Millisecond)
			w.kill()
			sleep(time.Minute) // nobody is there for the next two
			had := w.deliveries("")
			if len(had) != 30 {
				t.Fatalf("%d attempts were handed out", len(had))
			}
			for _, n := range counts {
				w.disk = movedTo(t, w.disk, n)
			}
			sleep(5 * time.Minute)
			w.start()
			early := w.connect("early", hello{queues: []string{"other"}}, never)
			for _, d := range had[:10] {
				early.send(carillon.WorkRequest{Results: []carillon.Result{success(d.Run)}})
			}
			sleep(2 * time.Second)
			w.work("new", done)
			sleep(10 * time.Second)
			if acks, stale := early.told(); acks != 10 || stale != 0 {
				t.Errorf("%v: %d reports were taken and %d refused", counts, acks, stale)
			}
			for i, d := range had {
				all := w.deliveries(d.Job)
				if want := 2 - min(1, max(0, 10-i)); len(all) != want || all[len(all)-1].Attempt != 1 ||
					!all[len(all)-1].Scheduled.Equal(due) {
					t.Errorf("%v: %s was delivered %d times, want %d", counts, d.Job, len(all), want)
				}
			}
			for i := range 30 {
				if n := len(w.deliveries(fmt.Sprint("missed/", i))); n > 0 {
					t.Errorf("%v: missed/%d was delivered %d times", counts, i, n)
				}
			}
		})
	}
}

// TestS20Webhooks: the events that webhooks have not been told of when the store moves they are told afterwards,
// each once, under an id that no event had; who watches must begin again.
func TestS20Webhooks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ns := carillon.Namespace{Name: carillon.DefaultNamespace, Webhooks: []carillon.Webhook{{Name: "w",
			URL: "https://example.com", Types: []carillon.EventType{carillon.EventRunSucceeded}}}}
		_, err := w.node.PutNamespace(t.Context(), ns)
		must(t, err)
		// told is what is told from a position on, by job, and the position after it.
		told := func(position string) (all map[string][]string, after string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			all = map[string][]string{}
			err := w.node.FollowWanted(ctx, position, func(b carillon.EventBatch) error {
				for _, e := range b.Events {
					all[e.Job] = append(all[e.Job], e.ID)
				}
				after = b.Position
				return nil
			})
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, carillon.DeadlineExceeded) {
				t.Fatal(err)
			}
			return all, after
		}
		_, begin := told("")
		w.work("worker", done)
		for i := range 300 {
			w.put(carillon.Job{Name: fmt.Sprint("a/", i)})
		}
		sleep(5 * time.Second)
		before, mid := told(begin)
		must(t, w.node.SetWebhooksPosition(t.Context(), mid))
		for i := range 300 {
			w.put(carillon.Job{Name: fmt.Sprint("b/", i)})
		}
		sleep(5 * time.Second)
		owed, _ := told(mid)
		if len(before) != 300 || len(owed) != 300 {
			t.Fatalf("%d events were told and %d are owed", len(before), len(owed))
		}
		used := map[string]bool{}
		for _, all := range []map[string][]string{before, owed} {
			for _, ids := range all {
				for _, id := range ids {
					used[id] = true
				}
			}
		}
		for _, n := range []int{7, 2, 4} {
			w.stop()
			w.disk = movedTo(t, w.disk, n)
			w.start()
			position, err := w.node.WebhooksPosition(t.Context())
			must(t, err)
			is, _ := told(position)
			for job := range owed {
				if len(is[job]) != 1 || used[is[job][0]] {
					t.Errorf("%d partitions: of %s is told %v", n, job, is[job])
				}
			}
			if len(is) != len(owed) {
				t.Errorf("%d partitions: %d events are told of %d", n, len(is), len(owed))
			}
			for _, ids := range is {
				used[ids[0]] = true
			}
			err = w.node.Watch(t.Context(), carillon.WatchQuery{Position: mid}, func(carillon.EventBatch) error { return nil })
			if !errors.Is(err, carillon.FailedPrecondition) {
				t.Errorf("%d partitions: a watch from before: %v", n, err)
			}
		}
		position, err := w.node.WebhooksPosition(t.Context())
		must(t, err)
		w.work("worker", done)
		w.put(carillon.Job{Name: "c"})
		sleep(5 * time.Second)
		if is, _ := told(position); len(is) != 301 || len(is["c"]) != 1 {
			t.Errorf("in the end %d events are told, of c %v", len(is), is["c"])
		}
	})
}

// dying is a store whose node dies when a batch of jobs is decided and no share of it is stored.
type dying struct {
	store.Store
	die func()
}

// Shard is for [store.Store].
func (d *dying) Shard(p int, term store.Term) (store.Shard, error) {
	s, err := d.Store.Shard(p, term)
	return dyingShard{s, d}, err
}

type dyingShard struct {
	store.Shard
	of *dying // shards are compared
}

// Apply is for [store.Shard].
func (s dyingShard) Apply(ctx context.Context, b *store.Batch) error {
	err := s.Shard.Apply(ctx, b)
	for _, m := range b.MetaRecords {
		if m.Kind == store.KindIntent && m.Value != nil {
			s.of.die()
		}
	}
	return err
}

// TestS20HalfABatch: a store with a batch that is decided and not stored does not move to another number of
// partitions, and is as it was. A node stores the batch, and then it moves.
func TestS20HalfABatch(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.stop()
		disk := w.disk
		w.disk = &dying{disk, func() { w.node.wire.cut.Store(true) }}
		w.start()
		var jobs []carillon.Job
		for i := range 40 {
			jobs = append(jobs, carillon.Job{Name: fmt.Sprint("batch/", i), Target: carillon.WorkerQueue("q"),
				Due: carillon.In(time.Hour)})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.node.PutJobs(ctx, jobs); err == nil {
			t.Fatal("the batch was stored")
		}
		w.kill()
		sleep(time.Minute)
		w.disk = disk
		_, err := transfer.MigrateAs(t.Context(), disk, func(context.Context, store.Options) (store.Store, error) {
			return nil, errors.New("the new store was made")
		}, repartition.To(7), nil)
		if err == nil || !strings.Contains(err.Error(), "1 batches of jobs are decided and may not be stored") {
			t.Errorf("half a batch: %v", err)
		}
		w.start()
		sleep(10 * time.Second)
		w.stop()
		w.disk = movedTo(t, disk, 7)
		w.start()
		for _, j := range jobs {
			w.job(j.Name)
		}
	})
}
