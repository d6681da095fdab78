package partition_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// bank is a limiter for one machine, of the keys in most.
type bank struct {
	most    map[delivery.Limit]int
	inForce map[delivery.Limit]int
	waits   map[delivery.Line]int
	freed   int // how often a permit was returned
	spent   map[delivery.Limit]int
}

func newBank() *bank {
	return &bank{most: map[delivery.Limit]int{}, inForce: map[delivery.Limit]int{},
		waits: map[delivery.Line]int{}, spent: map[delivery.Limit]int{}}
}

func (b *bank) Take(l delivery.Line) (ok, limited bool) {
	if _, limited := b.most[l.Limit]; !limited {
		return true, false
	}
	if b.inForce[l.Limit] >= b.most[l.Limit] {
		return false, true
	}
	b.inForce[l.Limit]++
	return true, true
}

func (b *bank) Free(l delivery.Limit) {
	b.inForce[l]--
	b.freed++
}
func (b *bank) Spend(l delivery.Limit) {
	b.inForce[l]--
	b.most[l]--
	b.spent[l]++
}
func (b *bank) Wait(l delivery.Line, _ int64, want int) { b.waits[l] = want }
func (b *bank) Pass(delivery.Line)                      {}
func (b *bank) Leave(l delivery.Line)                   { delete(b.waits, l) }
func (b *bank) free(l delivery.Limit) int               { return max(0, b.most[l]-b.inForce[l]) }
func (b *bank) recharge(held []delivery.Limit) {
	clear(b.inForce)
	clear(b.waits)
	for _, l := range held {
		b.inForce[l]++
	}
}

// attempt names an attempt uniquely: a put or a redrive gives it another generation.
type attempt struct {
	run        store.RunID
	generation uint64
	n          int
}

// randomRig is a rig on which anything is done at any moment, with what must be true of it all the same.
type randomRig struct {
	*rig
	rt      *rapid.T
	bank    *bank
	ceiling map[delivery.Limit]int // the most attempts of a limit that may be in force

	inForce []delivery.Delivery         // as far as consumers know
	limits  map[string][]delivery.Limit // of attempts, by token
	newest  map[string]string           // token of a run's newest attempt
	born    map[string]uint64           // life in which a token was handed out
	kept    map[string]bool             // whether it was durable then, so that a crash does not forget it
	lazily  map[attempt]uint64          // handed out before it was durable, in which life
	firmly  map[attempt]bool            // handed out durably
	done    map[string]bool             // runs whose success is durable
	pending []func()                    // becomes true when the batches so far are durable
	life    uint64                      // crashes so far
	left    map[store.RunID]bool        // runs that have been handed out
	retimed map[string]bool             // names of jobs that have had several schedules
	backs   bool                        // the clock goes backwards at times
	mail    []message.Notice
	fills   []string // ids of backfills
	shares  int

	names  []string
	queues []delivery.Queue
	dapr   bool // the jobs are of Dapr
	// and reminders of one actor type, which may be under three limits each
	reminders bool
}

// target is that of the i-th queue.
func (w *randomRig) target(i int) carillon.Target {
	switch {
	case w.reminders:
		return carillon.Target{Dapr: &carillon.DaprTarget{AppID: "x", ActorType: "cat", ActorID: "1",
			ConcurrencyKey: reminderKeys[rapid.IntRange(0, len(reminderKeys)-1).Draw(w.rt, "narrow")]}}
	case w.dapr:
		return carillon.Target{Dapr: &carillon.DaprTarget{AppID: "x", ConcurrencyKey: fmt.Sprint(i)}}
	}
	return carillon.WorkerQueue(w.queues[i].Address)
}

func (w *randomRig) someTarget() carillon.Target {
	return w.target(rapid.IntRange(0, len(w.queues)-1).Draw(w.rt, "queue"))
}

// ofDapr makes all jobs those of one app.
func (w *randomRig) ofDapr() *randomRig {
	w.dapr, w.names = true, nil
	for _, n := range []string{"a", "b", "c", "d"} {
		w.names = append(w.names, "dapr/app/x/"+n)
	}
	w.queues = []delivery.Queue{queueX}
	return w
}

// reminderKeys are the concurrency keys of reminders. The last one has no limit.
var reminderKeys = []string{"", "n", "n", "m", "free"}

// ofReminders makes all jobs reminders of one actor, under limits of their concurrency keys, of two keys of
// their type, and of the type.
func (w *randomRig) ofReminders() *randomRig {
	w.dapr, w.reminders, w.names = true, true, nil
	for _, n := range []string{"a", "b", "c", "d"} {
		w.names = append(w.names, "dapr/actor/cat/1/"+n)
	}
	w.queues = []delivery.Queue{queueCat}
	for _, key := range []string{"n", "m", ""} {
		w.bank.most[delivery.ActorLimit(carillon.DefaultNamespace, "cat", key)] = rapid.IntRange(1, 2).Draw(w.rt,
			"limit")
	}
	maps.Copy(w.ceiling, w.bank.most)
	return w
}

func newRandomRig(rt *rapid.T) *randomRig {
	b := newBank()
	for _, key := range []string{"k", "l"} {
		b.most[delivery.Limit{Namespace: carillon.DefaultNamespace, Key: key}] = rapid.IntRange(1, 2).Draw(rt,
			"limit")
	}
	w := &randomRig{
		rt: rt, bank: b, ceiling: map[delivery.Limit]int{}, limits: map[string][]delivery.Limit{},
		newest: map[string]string{}, born: map[string]uint64{}, kept: map[string]bool{},
		lazily: map[attempt]uint64{}, firmly: map[attempt]bool{}, done: map[string]bool{},
		retimed: map[string]bool{}, left: map[store.RunID]bool{},
		backs: rapid.IntRange(0, 3).Draw(rt, "backs") == 0, names: []string{"a", "b", "c", "d"}, queues: workQueues,
	}
	w.rig = newRig(rt, partition.Config{
		WindowJobs:  rapid.SampledFrom([]int{4, 64}).Draw(rt, "window"),
		WindowBytes: rapid.SampledFrom([]int{3 << 10, 8 << 20}).Draw(rt, "bytes"),
		Limiter:     b,
	})
	maps.Copy(w.ceiling, b.most)
	return w
}

func (w *randomRig) someName() string { return rapid.SampledFrom(w.names).Draw(w.rt, "name") }

// some returns a job with any of the features.
func (w *randomRig) some() carillon.Job {
	rt := w.rt
	j := carillon.Job{
		Namespace: carillon.DefaultNamespace, Name: w.someName(), Target: w.someTarget(),
		Lease: time.Duration(rapid.IntRange(2, 20).Draw(rt, "lease")) * time.Second,
		Priority: rapid.SampledFrom([]carillon.Priority{carillon.PriorityNormal, carillon.PriorityCritical,
			carillon.PriorityLow}).Draw(rt, "priority"),
		History: carillon.History{Runs: 10_000}, ConcurrencyKey: rapid.SampledFrom([]string{"", "k", "k",
			"l"}).Draw(rt, "concurrency key"),
		Overlap: carillon.Overlap(rapid.IntRange(0, 3).Draw(rt,
			"overlap")), Misfire: carillon.Misfire{Rule: carillon.MisfireRule(rapid.IntRange(0, 2).Draw(rt,
			"misfire"))},
	}
	if w.dapr {
		j.Timeout = j.Lease // nothing else ends an attempt whose result is lost
	}
	j.Metadata = map[string]string{"limit": j.ConcurrencyKey}
	j.Data.Bytes = make([]byte, rapid.SampledFrom([]int{1, 1, 2 << 10}).Draw(rt, "size"))
	j.Data.Bytes[0] = byte(rapid.IntRange(0, 1).Draw(rt, "data"))
	if rapid.IntRange(0, 3).Draw(rt, "recurring") > 0 {
		j.Schedule = rapid.SampledFrom([]string{"@every 2s", "@every 7s", "@every 15s",
			"@every 7s; @every 15s"}).Draw(rt, "schedule")
		j.Repeats = rapid.SampledFrom([]uint64{0, 0, 3}).Draw(rt, "repeats")
		j.Jitter = time.Duration(rapid.IntRange(0, 1).Draw(rt, "jitter")) * time.Second
		if rapid.IntRange(0, 5).Draw(rt, "mortal") == 0 {
			j.TTL = carillon.In(time.Minute)
		}
	} else {
		j.Overlap, j.Misfire.Rule = 0, 0
		j.Due = carillon.In(time.Duration(rapid.SampledFrom([]int{1, 0, 5, 20}).Draw(rt, "in")) * time.Second)
	}
	switch rapid.IntRange(0, 3).Draw(rt, "policy") {
	case 0:
		j.FailurePolicy = carillon.Drop()
	case 1, 2:
		j.FailurePolicy = carillon.Constant(2 * time.Second).WithMaxRetries(1)
		j.FailurePolicy.OnExhausted = carillon.ExhaustedDead
	}
	j.FailurePolicy.PauseAfter = rapid.SampledFrom([]uint32{0, 0, 1, 2}).Draw(rt, "pause after")
	for _, n := range w.names {
		if n != j.Name && rapid.IntRange(0, 15).Draw(rt, "depends_on") == 7 {
			j.DependsOn = append(j.DependsOn, n)
		}
	}
	return j
}

// register registers the dependencies of j, and finds out which jobs have succeeded durably.
func (w *randomRig) register(j *carillon.Job) (waits []store.Wait) {
	for _, of := range j.DependsOn {
		w.bring(keyOf(of))
		want := message.Dependency{Of: keyOf(of), Name: j.Name}
		exists, err := w.m.Records.Exists(want.Of), w.m.Dependencies.Register(w.now, want)
		if err != nil {
			w.t.Fatal(err)
		}
		wait := store.Wait{Name: of}
		if h := w.history(of); !exists && len(h) > 0 && h[0].Status == carillon.RunSucceeded {
			wait.By, wait.Open = h[0].ID, true
		}
		waits = append(waits, wait)
	}
	return waits
}

func (w *randomRig) request(j carillon.Job) message.PutRequest {
	if err := j.Validate(carillon.DefaultBounds()); err != nil {
		w.t.Fatal(err)
	}
	w.uids++
	req := message.PutRequest{Job: &j, Waits: w.register(&j)}
	binary.BigEndian.PutUint64(req.Random[:], w.uids)
	w.whole(j.Key())
	if old, err := w.m.Records.Job(j.Key()); err == nil {
		w.retimed[j.Name] = w.retimed[j.Name] || old.Schedule != j.Schedule || old.TTL != j.TTL ||
			old.Repeats != j.Repeats || !j.Recurring()
	}
	return req
}

func (w *randomRig) Put(*rapid.T) {
	w.putNow(w.request(w.some()))
}

// putNow puts a job, sometimes with Replace: then it gets another uid, and nothing of the older job is left.
func (w *randomRig) putNow(req message.PutRequest) {
	old, err := w.m.Records.Job(req.Job.Key())
	req.Options.Replace = rapid.IntRange(0, 2).Draw(w.rt, "again") == 0
	put, failed := w.m.Jobs.Put(w.now, req)
	if failed != nil {
		w.t.Fatal(failed)
	}
	if st := put.Job.Status; req.Options.Replace {
		if st.Generation != 1 || !put.Created || st.Counters != (carillon.Counters{}) || st.Current != nil ||
			st.LastRun != nil {
			w.t.Fatalf("put again: %+v", put)
		}
		if err == nil && old.Status.UID == st.UID {
			w.t.Fatalf("%s has its uid still", req.Job.Name)
		}
	}
}

// Again puts a job again with some of its content changed, but not its times.
func (w *randomRig) Again(rt *rapid.T) {
	key := keyOf(w.someName())
	w.whole(key)
	j, err := w.m.Records.Job(key)
	if err != nil {
		return
	}
	j.Status = nil
	switch rapid.IntRange(0, 4).Draw(rt, "what") {
	case 0:
		j.ConcurrencyKey = rapid.SampledFrom([]string{"", "k", "l"}).Draw(rt, "concurrency key")
		j.Metadata = map[string]string{"limit": j.ConcurrencyKey}
	case 1:
		if j.Recurring() {
			j.Overlap = carillon.Overlap(rapid.IntRange(0, 3).Draw(rt, "overlap"))
		}
	case 2:
		j.DependsOn = nil
	case 3:
		j.Target = w.someTarget()
	}
	w.putNow(w.request(j))
}

// Batch decides a batch and stores it, unless a crash comes between.
func (w *randomRig) Batch(rt *rapid.T) {
	a, b := w.some(), w.some()
	reqs := []message.PutRequest{w.request(a)}
	if a.Name != b.Name {
		reqs = append(reqs, w.request(b))
	}
	if rapid.Bool().Draw(rt, "together") {
		if _, bad, err := w.m.Jobs.PutAll(w.now, reqs); err != nil {
			rt.Fatalf("%d: %v", bad, err)
		}
		return
	}
	w.shares++
	id := fmt.Sprintf("%026d", w.shares)
	for i := range reqs {
		reqs[i].At = w.now
	}
	w.m.Write(partition.CommitIntents(id, w.now, reqs)...)
	w.commit()
	if rapid.IntRange(0, 2).Draw(rt, "crash") == 0 {
		w.Crash(rt) // which completes it
		return
	}
	w.seeThrough(id, reqs, false)
}

func (w *randomRig) seeThrough(id string, reqs []message.PutRequest, late bool) {
	for i := range reqs {
		w.whole(reqs[i].Job.Key())
	}
	if _, err := w.m.Jobs.ApplyShare(w.now, &message.Share{Batch: id, Late: late, Reqs: reqs}); err != nil {
		w.t.Fatal(err)
	}
	w.commit()
	w.m.Write(partition.WithdrawIntents(id, len(reqs))...)
	w.commit()
	w.m.Applied.Remove(id)
}

// on does something to some job, if there is one.
func (w *randomRig) on(f func(k carillon.Key)) func(*rapid.T) {
	return func(*rapid.T) {
		k := keyOf(w.someName())
		w.whole(k)
		w.m.Begin()
		f(k)
	}
}

func (w *randomRig) Backfill(rt *rapid.T) {
	name := w.someName()
	to := w.now - int64(rapid.IntRange(0, 30).Draw(rt, "to"))*int64(time.Second)
	spec := carillon.BackfillSpec{From: instant(to - int64(rapid.IntRange(0, 40).Draw(rt,
		"from"))*int64(time.Second)), To: instant(to)}
	if rapid.Bool().Draw(rt, "allow") {
		spec.Overlap = carillon.OverlapAllow
	}
	spec.Rate = rapid.SampledFrom([]float64{0, 0, 1}).Draw(rt, "rate")
	if b, err := w.backfill(name, spec); err == nil { // there need not be such a job, or such a time
		w.fills = append(w.fills, b.ID)
	}
}

func (w *randomRig) CancelBackfill(rt *rapid.T) {
	if len(w.fills) == 0 {
		return
	}
	id, err := store.ParseRunID(rapid.SampledFrom(w.fills).Draw(rt, "backfill"))
	if err != nil {
		rt.Fatal(err)
	}
	if refs := w.m.Backfills.OpenRuns(id); len(refs) > 0 {
		w.m.Load(w.read(refs), w.now)
	}
	w.m.BackfillRuns.Cancel(w.now, id)
}

func (w *randomRig) Redrive(rt *rapid.T) {
	name := w.someName()
	for _, h := range w.history(name) {
		if h.Status != carillon.RunDead {
			continue
		}
		w.bring(keyOf(name))
		if ref, ok, err := w.shard.Live(context.Background(), h.ID); err == nil && ok {
			w.m.Load(w.read([]store.Ref{ref, ref.Job()}), w.now)
		}
		if ended, ok := w.m.Ending(h.ID); ok && ended.Status != carillon.RunDead {
			return
		}
		if _, err := w.m.Records.Job(keyOf(name)); err != nil {
			w.retimed[name] = true // a put of what comes back counts its times again
		}
		_, _ = w.m.Jobs.Redrive(w.now, h) // unless it is being tried again already
		return
	}
}

// Limit changes a limit. Those who wait learn of it in the next round.
func (w *randomRig) Limit(rt *rapid.T) {
	all := slices.SortedFunc(maps.Keys(w.bank.most), delivery.Limit.Compare)
	w.setLimit(rapid.SampledFrom(all).Draw(rt, "key"), rapid.IntRange(0, 3).Draw(rt, "limit"))
}

func (w *randomRig) setLimit(l delivery.Limit, n int) {
	w.m.Permits.ForgoKept("")
	w.bank.most[l] = n
	w.ceiling[l] = max(n, w.bank.inForce[l])
}
