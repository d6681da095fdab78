package partition_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// bank is a limiter of several keys for one machine. Every key is limited.
type bank struct {
	most    map[partition.Limit]int
	inForce map[partition.Limit]int
	waits   map[partition.Line]int
}

func newBank() *bank {
	return &bank{most: map[partition.Limit]int{}, inForce: map[partition.Limit]int{}, waits: map[partition.Line]int{}}
}

func (b *bank) Take(l partition.Line) (ok, limited bool) {
	if b.inForce[l.Limit] >= b.most[l.Limit] {
		return false, true
	}
	b.inForce[l.Limit]++
	return true, true
}

func (b *bank) Free(l partition.Limit)                   { b.inForce[l]-- }
func (b *bank) Wait(l partition.Line, _ int64, want int) { b.waits[l] = want }
func (b *bank) Pass(partition.Line)                      {}
func (b *bank) Leave(l partition.Line)                   { delete(b.waits, l) }
func (b *bank) free(l partition.Limit) int               { return max(0, b.most[l]-b.inForce[l]) }
func (b *bank) recharge(held []partition.Limit) {
	clear(b.inForce)
	clear(b.waits)
	for _, l := range held {
		b.inForce[l]++
	}
}

// attempt names an attempt for good: the generation is another after a put and after a redrive.
type attempt struct {
	run        carillon.RunIdentity
	generation uint64
	n          int
}

// estate is a rig on which everything is done that can be done, at any moment, and what may be said of it all the same.
type estate struct {
	*rig
	rt      *rapid.T
	bank    *bank
	ceiling map[partition.Limit]int // most attempts that may be in force of a limit

	inForce []partition.Delivery // as far as consumers know
	key     map[string]string    // limit key by token
	newest  map[string]string    // token of a run's newest attempt
	born    map[string]uint64    // life in which a token was handed out
	kept    map[string]bool      // whether it was durable then, so that a crash does not forget it
	lazily  map[attempt]uint64   // handed out before it was durable, in which life
	firmly  map[attempt]bool     // handed out durably
	done    map[string]bool      // runs whose success is durable
	pending []func()             // becomes true when the batches so far are durable
	life    uint64               // crashes so far
	retimed map[string]bool      // names of jobs that have had several schedules
	backs   bool                 // the clock goes backwards at times
	mail    []partition.Letter
	fills   []string // ids of backfills
	shares  int
}

var estateNames = []string{"a", "b", "c", "d"}

func newEstate(rt *rapid.T) *estate {
	b := newBank()
	for _, key := range []string{"k", "l"} {
		b.most[partition.Limit{Namespace: carillon.DefaultNamespace, Key: key}] = rapid.IntRange(1, 2).Draw(rt, "limit")
	}
	w := &estate{
		rt: rt, bank: b, ceiling: map[partition.Limit]int{}, key: map[string]string{}, newest: map[string]string{}, born: map[string]uint64{}, kept: map[string]bool{}, lazily: map[attempt]uint64{},
		firmly: map[attempt]bool{}, done: map[string]bool{}, retimed: map[string]bool{}, backs: rapid.IntRange(0, 3).Draw(rt, "backs") == 0,
	}
	w.rig = newRig(rt, partition.Config{
		WindowJobs:  rapid.SampledFrom([]int{4, 64}).Draw(rt, "window"),
		WindowBytes: rapid.SampledFrom([]int{3 << 10, 8 << 20}).Draw(rt, "bytes"),
		Limiter:     b,
	})
	for l, n := range b.most {
		w.ceiling[l] = n
	}
	return w
}

func (w *estate) someName() string { return rapid.SampledFrom(estateNames).Draw(w.rt, "name") }

// some is a job with any of the features.
func (w *estate) some() carillon.Job {
	rt := w.rt
	j := carillon.Job{
		Namespace: carillon.DefaultNamespace, Name: w.someName(), Target: carillon.WorkerQueue(rapid.SampledFrom([]string{"q", "r"}).Draw(rt, "queue")),
		Lease:   time.Duration(rapid.IntRange(2, 20).Draw(rt, "lease")) * time.Second,
		Class:   rapid.SampledFrom([]carillon.Class{carillon.ClassNormal, carillon.ClassCritical, carillon.ClassLow}).Draw(rt, "class"),
		History: carillon.History{Runs: 10_000}, LimitKey: rapid.SampledFrom([]string{"", "k", "k", "l"}).Draw(rt, "limit key"),
		Overlap: carillon.Overlap(rapid.IntRange(0, 3).Draw(rt, "overlap")), Misfire: carillon.Misfire(rapid.IntRange(0, 2).Draw(rt, "misfire")),
	}
	j.Metadata = map[string]string{"limit": j.LimitKey}
	j.Data.Bytes = make([]byte, rapid.SampledFrom([]int{1, 1, 2 << 10}).Draw(rt, "size"))
	j.Data.Bytes[0] = byte(rapid.IntRange(0, 1).Draw(rt, "data"))
	if rapid.IntRange(0, 3).Draw(rt, "recurring") > 0 {
		j.Schedule = rapid.SampledFrom([]string{"@every 2s", "@every 7s", "@every 15s"}).Draw(rt, "schedule")
		j.Repeats = rapid.SampledFrom([]uint64{0, 0, 3}).Draw(rt, "repeats")
		j.Spread = time.Duration(rapid.IntRange(0, 1).Draw(rt, "spread")) * time.Second
		if rapid.IntRange(0, 5).Draw(rt, "mortal") == 0 {
			j.TTL = carillon.In(time.Minute)
		}
	} else {
		j.Overlap, j.Misfire = 0, 0
		j.Due = carillon.In(time.Duration(rapid.SampledFrom([]int{1, 0, 5, 20}).Draw(rt, "in")) * time.Second)
	}
	switch rapid.IntRange(0, 3).Draw(rt, "policy") {
	case 0:
		j.FailurePolicy = carillon.Drop()
	case 1, 2:
		j.FailurePolicy = carillon.Constant(2 * time.Second).WithMaxRetries(1)
		j.FailurePolicy.OnExhausted = carillon.ExhaustedDead
	}
	for _, n := range estateNames {
		if n != j.Name && rapid.IntRange(0, 15).Draw(rt, "after") == 7 {
			j.After = append(j.After, n)
		}
	}
	return j
}

// whole has the job in memory with all its pending runs, as a call of the engine does that edits it.
func (w *estate) whole(k carillon.Key) {
	w.bring(k)
	for last := uint64(0); ; {
		refs := w.m.Absent(k, last, 100)
		if len(refs) == 0 {
			return
		}
		w.m.Load(w.read(refs), w.now)
		last = refs[len(refs)-1].Seq
	}
}

// register makes the jobs that j waits for know it, and finds out which have succeeded for good.
func (w *estate) register(j *carillon.Job) (waits []store.Wait) {
	for _, of := range j.After {
		w.bring(keyOf(of))
		exists, err := w.m.Register(w.now, partition.Edge{Of: keyOf(of), Name: j.Name})
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

func (w *estate) request(j carillon.Job) partition.PutRequest {
	if err := j.Validate(carillon.DefaultLimits()); err != nil {
		w.t.Fatal(err)
	}
	w.uids++
	req := partition.PutRequest{Job: j, Waits: w.register(&j)}
	binary.BigEndian.PutUint64(req.Random[:], w.uids)
	w.whole(j.Key())
	if old, err := w.m.Job(j.Key()); err == nil {
		w.retimed[j.Name] = w.retimed[j.Name] || old.Schedule != j.Schedule || old.TTL != j.TTL || old.Repeats != j.Repeats || !j.Recurring()
	}
	return req
}

func (w *estate) Put(*rapid.T) {
	if _, err := w.m.Put(w.now, w.request(w.some())); err != nil {
		w.t.Fatal(err)
	}
}

// Again puts a job as it is, but for what it is made to do.
func (w *estate) Again(rt *rapid.T) {
	key := keyOf(w.someName())
	w.whole(key)
	j, err := w.m.Job(key)
	if err != nil {
		return
	}
	j.Status = nil
	switch rapid.IntRange(0, 4).Draw(rt, "what") {
	case 0:
		j.LimitKey = rapid.SampledFrom([]string{"", "k", "l"}).Draw(rt, "limit key")
		j.Metadata = map[string]string{"limit": j.LimitKey}
	case 1:
		if j.Recurring() {
			j.Overlap = carillon.Overlap(rapid.IntRange(0, 3).Draw(rt, "overlap"))
		}
	case 2:
		j.After = nil
	case 3:
		j.Target = carillon.WorkerQueue(rapid.SampledFrom([]string{"q", "r"}).Draw(rt, "queue"))
	}
	if _, err := w.m.Put(w.now, w.request(j)); err != nil {
		rt.Fatal(err)
	}
}

// Batch decides a batch and stores it, unless a crash comes in between.
func (w *estate) Batch(rt *rapid.T) {
	a, b := w.some(), w.some()
	reqs := []partition.PutRequest{w.request(a)}
	if a.Name != b.Name {
		reqs = append(reqs, w.request(b))
	}
	if rapid.Bool().Draw(rt, "together") {
		if _, bad, err := w.m.PutAll(w.now, reqs); err != nil {
			rt.Fatalf("%d: %v", bad, err)
		}
		return
	}
	w.shares++
	id := fmt.Sprintf("%026d", w.shares)
	for i := range reqs {
		reqs[i].At = w.now
	}
	w.m.Write(partition.Intents(id, w.now, reqs)...)
	w.commit()
	if rapid.IntRange(0, 2).Draw(rt, "crash") == 0 {
		w.Crash(rt) // which sees it through
		return
	}
	w.seeThrough(id, reqs, false)
}

func (w *estate) seeThrough(id string, reqs []partition.PutRequest, late bool) {
	for i := range reqs {
		w.whole(reqs[i].Job.Key())
	}
	if _, err := w.m.ApplyShare(w.now, &partition.Share{Batch: id, Late: late, Reqs: reqs}); err != nil {
		w.t.Fatal(err)
	}
	w.commit()
	w.m.Write(partition.NoIntents(id, len(reqs))...)
	w.commit()
	w.m.Unmark(id)
}

// on does something to some job, if there is one.
func (w *estate) on(f func(k carillon.Key)) func(*rapid.T) {
	return func(*rapid.T) {
		k := keyOf(w.someName())
		w.whole(k)
		w.m.Begin()
		f(k)
	}
}

func (w *estate) Backfill(rt *rapid.T) {
	name := w.someName()
	to := w.now - int64(rapid.IntRange(0, 30).Draw(rt, "to"))*int64(time.Second)
	spec := carillon.BackfillSpec{From: instant(to - int64(rapid.IntRange(0, 40).Draw(rt, "from"))*int64(time.Second)), To: instant(to)}
	if rapid.Bool().Draw(rt, "allow") {
		spec.Overlap = carillon.OverlapAllow
	}
	spec.Rate = rapid.SampledFrom([]float64{0, 0, 1}).Draw(rt, "rate")
	if b, err := w.backfill(name, spec); err == nil { // there need not be such a job, or such a time
		w.fills = append(w.fills, b.ID)
	}
}

func (w *estate) CancelBackfill(rt *rapid.T) {
	if len(w.fills) == 0 {
		return
	}
	id, err := carillon.ParseRunID(rapid.SampledFrom(w.fills).Draw(rt, "backfill"))
	if err != nil {
		rt.Fatal(err)
	}
	if refs := w.m.OpenRuns(id); len(refs) > 0 {
		w.m.Load(w.read(refs), w.now)
	}
	w.m.CancelBackfill(w.now, id)
}

func (w *estate) Redrive(rt *rapid.T) {
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
		_, _ = w.m.Redrive(w.now, h) // unless it is being tried again already
		return
	}
}

// Limit changes a limit; those who wait learn of it in the next round.
func (w *estate) Limit(rt *rapid.T) {
	l := partition.Limit{Namespace: carillon.DefaultNamespace, Key: rapid.SampledFrom([]string{"k", "l"}).Draw(rt, "key")}
	w.setLimit(l, rapid.IntRange(0, 3).Draw(rt, "limit"))
}

func (w *estate) setLimit(l partition.Limit, n int) {
	w.bank.most[l] = n
	w.ceiling[l] = max(n, w.bank.inForce[l])
}

// round is what the engine does in one: tokens, reads, and deliveries to consumers that have room for n.
func (w *estate) round(n int, first bool) {
	w.step()
	var lines []partition.Line
	for l := range w.bank.waits {
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b partition.Line) int { return cmp.Compare(a.String(), b.String()) })
	for _, l := range lines {
		if free := w.bank.free(l.Limit); free > 0 {
			n := min(free, w.bank.waits[l])
			delete(w.bank.waits, l)
			w.m.Promote(w.now, l, n)
		}
	}
	w.hand(w.m.Granted(w.now))
	parked := w.m.Parked(nil)
	slices.SortFunc(parked, func(a, b partition.Queue) int { return cmp.Compare(a.String(), b.String()) })
	for _, q := range parked {
		if sq, ok := w.m.WantStaged(q, 100); ok && (n > 0 || q.Limited()) {
			w.m.LoadStaged(q, sq, w.staged(sq), w.now)
		}
	}
	w.step()
	for _, q := range workQueues {
		ds, spare := w.m.Deliver(w.now, q, n, first)
		if len(ds) > n || spare > n {
			w.t.Fatalf("%d deliveries and %d spare slots of %d", len(ds), spare, n)
		}
		w.hand(ds, nil)
	}
	w.m.PassTokens()
}

// hand takes what leaves, and checks it.
func (w *estate) hand(ds []partition.Delivery, _ []partition.Queue) {
	for _, d := range ds {
		if !w.backs && (w.now < d.Run.Due.UnixNano() || w.now < d.Run.Scheduled.UnixNano()) {
			w.t.Fatalf("I1: %s is early", d.Run.Job)
		}
		if w.done[d.Run.ID] {
			w.t.Fatalf("I4: run %s of %s is handed out after its success was acknowledged", d.Run.ID, d.Run.Job)
		}
		tok := w.token(d.Run.Token)
		a := attempt{tok.Run, tok.Grant.Generation, tok.Attempt}
		if life, again := w.lazily[a]; w.firmly[a] || (again && life == w.life) {
			w.t.Fatalf("attempt %+v of %s is handed out twice", a, d.Run.Job)
		}
		if w.lazily[a] = w.life; d.Durable {
			w.firmly[a] = true
		}
		w.inForce = append(w.inForce, d)
		w.newest[d.Run.ID], w.born[d.Run.Token], w.kept[d.Run.Token] = d.Run.Token, w.life, d.Durable
		w.key[d.Run.Token] = d.Run.Metadata["limit"]
		if w.key[d.Run.Token] != "" && !d.Durable {
			w.t.Fatalf("limited attempt of %s leaves before it is durable", d.Run.Job)
		}
	}
	w.withinLimits()
}

// withinLimits counts the attempts that the machine, or the store, has as going on.
func (w *estate) withinLimits() {
	n := map[partition.Limit]int{}
	counted := map[string]bool{}
	for _, d := range w.inForce {
		tok := w.token(d.Run.Token)
		if w.key[d.Run.Token] == "" || counted[d.Run.Token] {
			continue
		}
		counted[d.Run.Token] = true
		if r, ok := w.m.Run(tok.Run); ok && r.Status == carillon.RunRunning && r.Token == d.Run.Token {
			n[partition.Limit{Namespace: carillon.DefaultNamespace, Key: w.key[d.Run.Token]}]++
		}
	}
	for l, in := range n {
		if in > w.ceiling[l] || in > w.bank.inForce[l] {
			w.t.Fatalf("%d attempts are in force of %v, with %d tokens and a limit of %d", in, l, w.bank.inForce[l], w.bank.most[l])
		}
	}
}

func (w *estate) token(s string) partition.Token {
	tok, err := partition.ParseToken(s, w.store.Meta().MACKey)
	if err != nil {
		w.t.Fatal(err)
	}
	return tok
}

func (w *estate) Deliver(rt *rapid.T) {
	w.round(rapid.SampledFrom([]int{2, 4, 1, 0}).Draw(rt, "n"), rapid.IntRange(0, 2).Draw(rt, "first") == 0)
}

// one is an attempt that a consumer thinks it has.
func (w *estate) one(rt *rapid.T) (i int, d partition.Delivery) {
	if len(w.inForce) == 0 {
		return -1, d
	}
	i = rapid.IntRange(0, len(w.inForce)-1).Draw(rt, "attempt")
	return i, w.inForce[i]
}

// load has the run of a token in memory, if it is unfinished.
func (w *estate) load(tok partition.Token) {
	ref, ok := w.m.Holds(tok.Run)
	if !ok {
		var err error
		if ref, ok, err = w.shard.Live(context.Background(), tok.Run); err != nil {
			w.t.Fatal(err)
		}
	}
	if ok {
		w.m.Load(w.read([]store.Ref{ref, ref.Job()}), w.now)
	}
}

// say makes a report, and checks that nobody but the newest attempt is heard.
func (w *estate) say(d partition.Delivery, res carillon.Result) partition.Verdict {
	tok := w.token(d.Run.Token)
	w.load(tok)
	before, had := w.m.Run(tok.Run)
	v := w.report(d, res)
	if newest := w.newest[d.Run.ID]; v == partition.Accepted && newest != d.Run.Token && (w.kept[newest] || w.born[newest] == w.life) {
		w.t.Fatalf("the result of an attempt is accepted that is not the newest: %+v", d.Run)
	}
	if v == partition.Stale && had {
		after, has := w.m.Run(tok.Run)
		if !has || after.Status != before.Status || after.Attempt != before.Attempt || !after.Due.Equal(before.Due) {
			w.t.Fatalf("a stale token changes %+v to %+v", before, after)
		}
	}
	return v
}

func (w *estate) Report(rt *rapid.T) {
	i, d := w.one(rt)
	if i < 0 {
		return
	}
	if rapid.IntRange(0, 4).Draw(rt, "keep") > 0 { // sometimes the result is sent again later
		w.inForce = slices.Delete(w.inForce, i, i+1)
	}
	switch rapid.IntRange(0, 7).Draw(rt, "outcome") {
	case 0:
		w.say(d, carillon.Result{Outcome: carillon.OutcomeProgress, Progress: carillon.Progress{Percent: 5}})
	case 1:
		at := instant(w.now + int64(rapid.IntRange(-5, 20).Draw(rt, "later"))*int64(time.Second))
		w.say(d, carillon.Result{Outcome: carillon.OutcomeReschedule, At: at})
	case 2, 3:
		w.say(d, carillon.Result{Outcome: carillon.OutcomeFailure, Message: "no"})
	case 4:
		w.load(w.token(d.Run.Token))
		w.reportAs(d.Run.Token, &partition.Report{Result: carillon.Result{Outcome: carillon.OutcomeFailure, Message: "gone", Permanent: true}, PauseJob: true})
	default:
		w.succeedIn(d)
	}
}

func (w *estate) succeedIn(d partition.Delivery) {
	w.m.Begin()
	if w.say(d, carillon.Result{Outcome: carillon.OutcomeSuccess}) != partition.Accepted {
		return
	}
	w.pending = append(w.pending, func() { w.done[d.Run.ID] = true })
}

// Voice is what else is heard of attempts.
func (w *estate) Voice(rt *rapid.T) {
	i, d := w.one(rt)
	if i < 0 {
		return
	}
	tok := w.token(d.Run.Token)
	w.load(tok)
	switch rapid.IntRange(0, 3).Draw(rt, "what") {
	case 0:
		w.m.Beat(w.now, tok)
	case 1:
		w.m.Lost(w.now, tok, "gone")
	case 2:
		w.m.Cancel(w.now, tok.Run)
	default:
		if w.newest[d.Run.ID] == d.Run.Token { // the node that handed it out knows that it has not
			w.m.Undelivered(w.now, tok)
			w.inForce = slices.DeleteFunc(w.inForce, func(o partition.Delivery) bool { return o.Run.Token == d.Run.Token })
			delete(w.lazily, attempt{tok.Run, tok.Grant.Generation, tok.Attempt})
			delete(w.firmly, attempt{tok.Run, tok.Grant.Generation, tok.Attempt})
			delete(w.newest, d.Run.ID)
		}
	}
}

// CancelOne cancels the unfinished run of a job, whoever has it.
func (w *estate) CancelOne(*rapid.T) {
	k := keyOf(w.someName())
	w.whole(k)
	if j, err := w.m.Job(k); err == nil && j.Status.Current != nil {
		id, err := carillon.ParseRunID(j.Status.Current.ID)
		if err != nil {
			w.t.Fatal(err)
		}
		w.m.Cancel(w.now, id)
	}
}

func (w *estate) Stage(rt *rapid.T) {
	if rapid.Bool().Draw(rt, "aside") {
		w.m.StageAside(w.now, 1000)
		return
	}
	w.m.Stage(rapid.SampledFrom(workQueues).Draw(rt, "queue"), w.now, 1000)
}

// Post tells successes and brings the answers back, if they are not lost.
func (w *estate) Post(rt *rapid.T) {
	w.mail = append(w.mail, w.m.Letters(w.now, 10)...)
	for ; len(w.mail) > 0; w.mail = w.mail[1:] {
		l := w.mail[0]
		w.bring(l.Waiting())
		answer := w.m.Release(l)
		if w.commit(); rt != nil && rapid.IntRange(0, 3).Draw(rt, "lost") == 0 {
			answer = partition.Unheard
		}
		w.m.Answered(w.now, l, answer)
	}
}

func (w *estate) commit() {
	w.flush()
	for _, f := range w.pending {
		f()
	}
	w.pending = nil
	for l, n := range w.bank.inForce {
		w.ceiling[l] = max(w.bank.most[l], n)
	}
}

func (w *estate) maybeCommit(rt *rapid.T) {
	switch rapid.IntRange(0, 4).Draw(rt, "commit") {
	case 0: // later
	case 1:
		w.step()
		w.take() // on its way
	case 2:
		w.step()
		w.land() // what comes after it is not
	default:
		w.commit()
	}
}

// Crash loses what is not durable. The batch on its way may have got there, or not.
func (w *estate) Crash(rt *rapid.T) {
	if rapid.IntRange(0, 2).Draw(rt, "how") == 0 {
		w.m.KeepGrants() // it leaves in order
		w.commit()
	}
	if w.take(); len(w.batches) > 0 && rapid.Bool().Draw(rt, "arrived") {
		if err := w.shard.Apply(context.Background(), w.batches[0]); err != nil {
			rt.Fatal(err)
		}
	}
	w.life++
	w.pending, w.mail = nil, nil
	w.own()
	w.bank.recharge(w.held)
	for l, n := range w.bank.inForce {
		w.ceiling[l] = max(w.bank.most[l], n)
	}
	w.step()
	if intents := w.small(partition.SmallIntent); len(intents) > 0 {
		reqs, err := partition.ReadIntents(intents)
		if err != nil {
			rt.Fatal(err)
		}
		w.seeThrough(partition.IntentID(intents[0].Key), reqs, true)
	}
	for id := range w.m.Applied() {
		w.m.Unmark(id)
	}
}

func (w *estate) Advance(rt *rapid.T) {
	w.advance(time.Duration(rapid.SampledFrom([]int{2000, 5000, 900, 1, 20_000}).Draw(rt, "ms")) * time.Millisecond)
	for _, f := range w.pending { // it lands everything
		f()
	}
	w.pending = nil
}

// Back sets the clock back.
func (w *estate) Back(rt *rapid.T) {
	if w.backs {
		w.now -= int64(rapid.IntRange(1, 5000).Draw(rt, "back ms")) * int64(time.Millisecond)
	}
}

// toTheEnd lets everything happen that can, with consumers that succeed.
func (w *estate) toTheEnd(idleFor int) {
	for idle := 0; idle < idleFor; {
		w.round(100, false)
		w.commit()
		w.round(0, false)
		w.commit()
		ds := w.inForce
		w.inForce = nil
		for _, d := range ds {
			w.succeedIn(d)
		}
		w.commit()
		w.Post(nil)
		if len(ds) == 0 {
			idle++
			w.advance(time.Second)
		}
	}
}

func (w *estate) finish() {
	w.commit()
	for l := range w.bank.most {
		w.setLimit(l, 100)
	}
	for _, paused := range []bool{false, true} {
		for _, n := range estateNames {
			w.whole(keyOf(n))
			_, _ = w.m.SetPaused(w.now, keyOf(n), carillon.Pause{Paused: paused}) // there need not be such a job
		}
		w.toTheEnd(40)
	}
	for _, r := range w.jobs() {
		if s := r.State; s.Run.Live || s.Pending != 0 || s.Backfills != 0 {
			for n := range min(s.Triggers, 1000) {
				ref := store.Ref{Key: r.Key, Seq: n + 1}
				if p := w.read([]store.Ref{ref})[0]; p.Exists {
					w.t.Fatalf("run %d of %s has not come to its end: %+v (job %+v)", ref.Seq, r.Name, p.State, s)
				}
			}
			w.t.Fatalf("%s has not come to its end: %+v", r.Name, s)
		}
	}
	for _, name := range estateNames {
		if !w.retimed[name] {
			w.once(name)
		}
		w.whole(keyOf(name))
		_, _ = w.m.Delete(w.now, keyOf(name)) // there need not be such a job
	}
	w.commit()
	w.gone()
}

// once checks that no scheduled time has both run and been passed over, or been passed over twice.
func (w *estate) once(name string) {
	type stretch struct{ from, to int64 }
	passed := map[carillon.UID][]stretch{}
	records := w.history(name)
	for _, h := range records {
		if h.Skipped == 0 {
			continue
		}
		for _, o := range passed[h.ID.UID] {
			if h.From <= o.to && o.from <= h.ID.Scheduled {
				w.t.Fatalf("times of %s are passed over twice: %+v and %+v", name, o, h)
			}
		}
		passed[h.ID.UID] = append(passed[h.ID.UID], stretch{h.From, h.ID.Scheduled})
	}
	for _, h := range records {
		for _, o := range passed[h.ID.UID] {
			if t := h.ID.Scheduled; h.Skipped == 0 && h.ID.Cause == carillon.CauseSchedule && o.from <= t && t <= o.to {
				w.t.Fatalf("%s has run at a time that was passed over: %+v %+v", name, h, o)
			}
		}
	}
}

// gone checks that nothing is left when the jobs are.
func (w *estate) gone() {
	for range 4 {
		w.toTheEnd(1)
		w.advance(time.Minute)
		for _, e := range w.m.Checkups(w.now) {
			w.bring(e.Waiting())
			if !w.m.WaitsFor(e) {
				w.m.Forget(w.now, e)
			}
		}
		w.m.AwaitTokens()
		w.commit()
	}
	if left := w.jobs(); len(left) > 0 {
		w.t.Fatalf("I12: jobs left: %+v", left)
	}
	if s := w.m.Stats(); s != (partition.Stats{}) {
		w.t.Fatalf("I12: left in memory: %+v", s)
	}
	for class := range uint8(4) {
		if due, err := w.shard.Due(context.Background(), store.DueQuery{Class: class, Until: 1 << 62, Limit: 10}); err != nil || len(due) > 0 {
			w.t.Fatalf("I12: due entries left: %v %v", due, err)
		}
	}
	for _, kind := range []byte("qleoia") {
		if left := w.small(kind); len(left) > 0 {
			w.t.Fatalf("I12: small records of kind %q left: %+v", kind, left)
		}
	}
	if left := w.backfills(partition.UnfinishedBackfills); len(left) > 0 {
		w.t.Fatalf("I12: unfinished backfills left: %d", len(left))
	}
	for l, n := range w.bank.inForce {
		if n != 0 {
			w.t.Fatalf("I12: %d tokens of %v left", n, l)
		}
	}
	if len(w.bank.waits) > 0 {
		w.t.Fatalf("I12: lines left: %v", w.bank.waits)
	}
}

// acts are what may happen, what drives the others forward more often.
func (w *estate) acts() []func(*rapid.T) {
	return []func(*rapid.T){
		w.Advance, w.Deliver, w.Report, w.Put, w.Deliver, w.Again, w.Advance, w.Backfill, w.Deliver, w.Report, w.Voice, w.Advance, w.Post,
		w.Crash, w.Redrive, w.Deliver, w.Batch, w.Stage, w.Report, w.Advance, w.Voice, w.Deliver, w.CancelBackfill, w.Limit, w.CancelOne,
		w.Post, w.Again, w.Backfill, w.Redrive, w.Stage, w.Back,
		w.on(func(k carillon.Key) { _, _ = w.m.Delete(w.now, k) }), // there need not be such a job, here and below
		w.on(func(k carillon.Key) { _, _ = w.m.Trigger(w.now, k) }),
		w.on(func(k carillon.Key) { _, _ = w.m.Skip(w.now, k) }),
		w.on(func(k carillon.Key) {
			_, _ = w.m.SetPaused(w.now, k, carillon.Pause{Paused: rapid.Bool().Draw(w.rt, "paused"), CatchUp: rapid.Bool().Draw(w.rt, "catch up")})
		}),
		w.on(func(k carillon.Key) {
			class := rapid.SampledFrom([]carillon.Class{carillon.ClassHigh, carillon.ClassLow}).Draw(w.rt, "class")
			_, _ = w.m.Patch(w.now, k, carillon.Patch{Fields: []string{"class"}, Job: carillon.Job{Class: class}})
		}),
	}
}

// TestEverythingTogether does everything at once to jobs with any of the features, crashes, lost answers and failed commits
// included, and holds what comes out against what all features promise.
var dbg = map[string]int{}

func TestEverythingTogether(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newEstate(rt)
		acts := w.acts()
		for range 3 {
			w.Put(rt)
		}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(acts)-1), 80, 200).Draw(rt, "acts") {
			acts[i](rt)
			w.maybeCommit(rt)
		}
		dbg["attempts"] += len(w.firmly) + len(w.lazily)
		w.finish()
	})
	t.Log(dbg)
}
