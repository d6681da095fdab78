package partition_test

import (
	"cmp"
	"context"
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

// round does what a round of the engine does: permits, reads, and deliveries to consumers that have room for
// n.
func (w *randomRig) round(n int, first bool) {
	w.step()
	var lines []delivery.Line
	for l := range w.bank.waits {
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b delivery.Line) int { return cmp.Compare(a.String(), b.String()) })
	for _, l := range lines {
		if free := w.bank.free(l.Limit); free > 0 {
			n := min(free, w.bank.waits[l])
			delete(w.bank.waits, l)
			w.m.Promote(w.now, l, n)
		}
	}
	w.hand(w.m.Attempts.Granted(nil, nil, w.now))
	parked := w.m.Permits.Promoted()
	if n > 0 {
		parked = append(parked, w.queues...)
	}
	for _, q := range parked {
		if sq, ok := w.m.Window.WantStaged(q, 100); ok {
			w.m.LoadStaged(q, sq, w.staged(sq), w.now)
		}
	}
	w.step()
	for _, q := range w.queues {
		ds, rest := w.m.Deliver(nil, w.now, q, n, first, nil)
		if len(ds)+rest.Unused > n || (rest.Unused > 0 && rest.N > 0) {
			w.t.Fatalf("%d deliveries for %d slots, and the rest is %+v", len(ds), n, rest)
		}
		w.hand(ds, nil)
	}
	w.m.Permits.ReturnUnused()
}

// hand takes what is handed out, and checks it.
func (w *randomRig) hand(ds []delivery.Delivery, _ []delivery.Rest) {
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
		w.inForce, w.left[tok.Run] = append(w.inForce, d), true
		w.newest[d.Run.ID], w.born[d.Run.Token], w.kept[d.Run.Token] = d.Run.Token, w.life, d.Durable
		var limits []delivery.Limit
		for _, l := range delivery.AppendLimits(nil, &carillon.Job{Namespace: d.Run.Namespace, Target: d.Target,
			ConcurrencyKey: d.Run.Metadata["limit"]}, nil) {
			if _, limited := w.bank.most[l]; limited {
				limits = append(limits, l)
			}
		}
		if w.limits[d.Run.Token] = limits; len(limits) > 0 && !d.Durable {
			w.t.Fatalf("limited attempt of %s leaves before it is durable", d.Run.Job)
		}
	}
	w.withinLimits()
}

// withinLimits counts the attempts in force, in the machine and in the store.
func (w *randomRig) withinLimits() {
	n := map[delivery.Limit]int{}
	counted := map[string]bool{}
	for _, d := range w.inForce {
		tok := w.token(d.Run.Token)
		if counted[d.Run.Token] {
			continue
		}
		counted[d.Run.Token] = true
		if r, ok := w.m.Records.Run(tok.Run); ok && r.Status == carillon.RunRunning && r.Token == d.Run.Token {
			for _, l := range w.limits[d.Run.Token] {
				n[l]++
			}
		}
	}
	for l, in := range n {
		if in > w.ceiling[l] || in > w.bank.inForce[l] {
			w.t.Fatalf("%d attempts are in force of %v, with %d tokens and a limit of %d", in, l,
				w.bank.inForce[l], w.bank.most[l])
		}
	}
}

func (w *randomRig) token(s string) message.Token {
	tok, err := message.ParseToken(s, w.store.Meta().MACKey)
	if err != nil {
		w.t.Fatal(err)
	}
	return tok
}

func (w *randomRig) Deliver(rt *rapid.T) {
	w.round(rapid.SampledFrom([]int{2, 4, 1, 0}).Draw(rt, "n"), rapid.IntRange(0, 2).Draw(rt, "first") == 0)
}

// one returns an attempt that a consumer believes to have.
func (w *randomRig) one(rt *rapid.T) (i int, d delivery.Delivery) {
	if len(w.inForce) == 0 {
		return -1, d
	}
	i = rapid.IntRange(0, len(w.inForce)-1).Draw(rt, "attempt")
	return i, w.inForce[i]
}

// load brings the run of a token into memory, if it is unfinished.
func (w *randomRig) load(tok message.Token) {
	ref, ok := w.m.Records.Holds(tok.Run)
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

// say makes a report, and checks that only the newest attempt is accepted.
func (w *randomRig) say(d delivery.Delivery, res carillon.Result) partition.Verdict {
	tok := w.token(d.Run.Token)
	w.load(tok)
	before, had := w.m.Records.Run(tok.Run)
	v := w.report(d, res)
	if v == partition.Accepted && w.dapr && had && before.Status == carillon.RunRunning &&
		w.born[d.Run.Token] != w.life {
		w.t.Fatalf("the result of an attempt is accepted whose stream has ended: %+v", d.Run)
	}
	if newest := w.newest[d.Run.ID]; v == partition.Accepted && newest != d.Run.Token &&
		(w.kept[newest] || w.born[newest] == w.life) {
		w.t.Fatalf("the result of an attempt is accepted that is not the newest: %+v", d.Run)
	}
	if v == partition.Stale && had {
		after, has := w.m.Records.Run(tok.Run)
		if !has || after.Status != before.Status || after.Attempt != before.Attempt ||
			!after.Due.Equal(before.Due) {
			w.t.Fatalf("a stale token changes %+v to %+v", before, after)
		}
	}
	return v
}

func (w *randomRig) Report(rt *rapid.T) {
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
		w.reportAs(d.Run.Token, &delivery.Report{Result: carillon.Result{Outcome: carillon.OutcomeFailure,
			Message: "gone", Permanent: true}, PauseJob: true})
	default:
		w.succeedIn(d)
	}
}

func (w *randomRig) succeedIn(d delivery.Delivery) {
	w.m.Begin()
	if w.say(d, carillon.Result{Outcome: carillon.OutcomeSuccess}) != partition.Accepted {
		return
	}
	w.pending = append(w.pending, func() { w.done[d.Run.ID] = true })
}

// Voice is everything else that consumers report of attempts.
func (w *randomRig) Voice(rt *rapid.T) {
	i, d := w.one(rt)
	if i < 0 {
		return
	}
	tok := w.token(d.Run.Token)
	w.load(tok)
	switch rapid.IntRange(0, 3).Draw(rt, "what") {
	case 0:
		w.m.Attempts.Heartbeat(w.now, tok)
	case 1:
		w.m.Lost(w.now, tok, "gone")
	case 2:
		w.m.Jobs.Cancel(w.now, tok.Run)
	default:
		if w.newest[d.Run.ID] == d.Run.Token { // the node that handed it out knows that it was never sent
			w.m.Attempts.Undelivered(w.now, tok)
			w.inForce = slices.DeleteFunc(w.inForce,
				func(o delivery.Delivery) bool { return o.Run.Token == d.Run.Token })
			delete(w.lazily, attempt{tok.Run, tok.Grant.Generation, tok.Attempt})
			delete(w.firmly, attempt{tok.Run, tok.Grant.Generation, tok.Attempt})
			delete(w.newest, d.Run.ID)
			if !w.dapr || rapid.Bool().Draw(rt, "never sent") { // otherwise its stream has ended
				delete(w.left, tok.Run)
			}
		}
	}
}

// CancelOne cancels the unfinished run of a job, wherever it is.
func (w *randomRig) CancelOne(*rapid.T) {
	k := keyOf(w.someName())
	w.whole(k)
	if j, err := w.m.Records.Job(k); err == nil && j.Status.Current != nil {
		id, err := store.ParseRunID(j.Status.Current.ID)
		if err != nil {
			w.t.Fatal(err)
		}
		w.m.Jobs.Cancel(w.now, id)
	}
}

// triggered is some way of triggering a job.
func triggered(rt *rapid.T) (o carillon.TriggerOptions) {
	rule := rapid.SampledFrom([]carillon.Overlap{carillon.OverlapAllow, carillon.OverlapAllow, carillon.OverlapSkip,
		carillon.OverlapReplace}).Draw(rt, "rule")
	o.Overlap = &rule
	if size := rapid.SampledFrom([]int{0, 0, 1, 2 << 10}).Draw(rt, "own data"); size > 0 {
		o.Data = &carillon.Data{Bytes: make([]byte, size)}
	}
	return o
}

func (w *randomRig) Stage(rt *rapid.T) {
	if rapid.Bool().Draw(rt, "aside") {
		w.m.Window.StageAside(w.now, 1000)
		return
	}
	w.m.Window.Stage(rapid.SampledFrom(w.queues).Draw(rt, "queue"), w.now, 1000)
}

// Post delivers notices and, unless they are lost, their answers.
func (w *randomRig) Post(rt *rapid.T) {
	w.mail = append(w.mail, w.m.Dependencies.Notices(w.now, 10)...)
	for ; len(w.mail) > 0; w.mail = w.mail[1:] {
		l := w.mail[0]
		w.bring(l.Waiting())
		answer := w.m.Jobs.Release(l)
		if w.commit(); rt != nil && rapid.IntRange(0, 3).Draw(rt, "lost") == 0 {
			answer = message.Unreached
		}
		w.m.Dependencies.Answered(w.now, l, answer)
	}
}

func (w *randomRig) commit() {
	w.flush()
	for _, f := range w.pending {
		f()
	}
	w.pending = nil
	for l, n := range w.bank.inForce {
		w.ceiling[l] = max(w.bank.most[l], n)
	}
}

func (w *randomRig) maybeCommit(rt *rapid.T) {
	switch rapid.IntRange(0, 4).Draw(rt, "commit") {
	case 0: // later
	case 1:
		w.step()
		w.take() // on its way
	case 2:
		w.step()
		w.land() // what comes after it is not applied
	default:
		w.commit()
	}
}

// Crash loses what is not durable. The batch in flight may have been applied or not.
func (w *randomRig) Crash(rt *rapid.T) {
	if rapid.IntRange(0, 2).Draw(rt, "how") == 0 {
		w.m.Attempts.KeepAll() // it ends in order
		w.commit()
	}
	if w.take(); len(w.batches) > 0 && rapid.Bool().Draw(rt, "arrived") {
		if err := w.shard.Apply(context.Background(), w.batches[0]); err != nil {
			rt.Fatal(err)
		}
	}
	w.life++
	w.pending, w.mail = nil, nil
	if w.dapr {
		clear(w.firmly) // the consumers that had them have gone
	}
	w.own()
	w.bank.recharge(w.held)
	for l, n := range w.bank.inForce {
		w.ceiling[l] = max(w.bank.most[l], n)
	}
	w.step()
	if intents := w.small(store.KindIntent); len(intents) > 0 {
		reqs, err := partition.ReadIntents(intents)
		if err != nil {
			rt.Fatal(err)
		}
		w.seeThrough(partition.IntentID(intents[0].Key), reqs, true)
	}
	for id := range w.m.Applied.Coordinators() {
		w.m.Applied.Remove(id)
	}
}

func (w *randomRig) Advance(rt *rapid.T) {
	w.advance(time.Duration(rapid.SampledFrom([]int{2000, 5000, 900, 1, 20_000}).Draw(rt,
		"ms")) * time.Millisecond)
	for _, f := range w.pending { // this applies everything
		f()
	}
	w.pending = nil
}

// Back sets the clock back.
func (w *randomRig) Back(rt *rapid.T) {
	if w.backs {
		w.now -= int64(rapid.IntRange(1, 5000).Draw(rt, "back ms")) * int64(time.Millisecond)
	}
}

// toTheEnd lets everything happen that can, with consumers that succeed.
func (w *randomRig) toTheEnd(idleFor int) {
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

func (w *randomRig) finish() {
	w.commit()
	for l := range w.bank.most {
		w.setLimit(l, 100)
	}
	for _, paused := range []bool{false, true} {
		for _, n := range w.names {
			w.whole(keyOf(n))
			// there need not be such a job
			_, _ = w.m.Jobs.SetPaused(w.now, keyOf(n), carillon.PauseOptions{Paused: paused})
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
	for _, name := range w.names {
		if !w.retimed[name] {
			w.once(name)
		}
		w.whole(keyOf(name))
		_, _ = w.m.Jobs.Delete(w.now, keyOf(name)) // there need not be such a job
	}
	w.commit()
	w.gone()
}

// once checks that no scheduled time has both run and been skipped, or been skipped twice.
func (w *randomRig) once(name string) {
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
	for id := range w.left {
		for _, o := range passed[id.UID] {
			// With the clock set back a time may not be due yet for the next owner. Then it can be skipped by
			// a call, like any such time.
			if t := id.Scheduled; !w.backs && id.Cause == carillon.CauseSchedule && o.from <= t && t <= o.to {
				w.t.Fatalf("%s was handed out at a time that was passed over: %+v %+v", name, id, o)
			}
		}
	}
	for _, h := range records {
		for _, o := range passed[h.ID.UID] {
			if t := h.ID.Scheduled; h.Skipped == 0 && h.ID.Cause == carillon.CauseSchedule &&
				o.from <= t && t <= o.to {
				w.t.Fatalf("%s has run at a time that was passed over: %+v %+v", name, h, o)
			}
		}
	}
}

// gone checks that nothing is left when the jobs are gone.
func (w *randomRig) gone() {
	for range 4 {
		w.toTheEnd(1)
		w.advance(time.Minute)
		for _, e := range w.m.Dependencies.Checkups(w.now) {
			w.bring(e.Waiting())
			if !w.m.Records.WaitsFor(e) {
				w.m.Dependencies.Forget(w.now, e)
			}
		}
		w.m.Permits.WaitAgain()
		w.commit()
	}
	if left := w.jobs(); len(left) > 0 {
		w.t.Fatalf("I12: jobs left: %+v", left)
	}
	if s := w.m.Stats(); s != (partition.Stats{}) {
		w.t.Fatalf("I12: left in memory: %+v", s)
	}
	for class := range uint8(4) {
		if due, err := w.shard.Due(context.Background(),
			store.DueQuery{Priority: class, Until: 1 << 62, Limit: 10}); err != nil || len(due) > 0 {
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

// acts are the operations that may happen. Those that drive the others forward come more often.
func (w *randomRig) acts() []func(*rapid.T) {
	return []func(*rapid.T){
		w.Advance, w.Deliver, w.Report, w.Put, w.Deliver, w.Again, w.Advance, w.Backfill, w.Deliver, w.Report,
		w.Voice, w.Advance, w.Post, w.Crash, w.Redrive, w.Deliver, w.Batch, w.Stage, w.Report, w.Advance, w.Voice,
		w.Deliver, w.CancelBackfill, w.Limit, w.CancelOne, w.Post, w.Again, w.Ask, w.Backfill, w.Redrive, w.Stage, w.Back,
		// there need not be such a job, here and below
		w.on(func(k carillon.Key) { _, _ = w.m.Jobs.Delete(w.now, k) }),
		w.on(func(k carillon.Key) { _, _ = w.m.Jobs.Trigger(w.now, k, triggered(w.rt)) }),
		w.on(func(k carillon.Key) { _, _ = w.m.Jobs.Skip(w.now, k) }),
		w.on(func(k carillon.Key) {
			_, _ = w.m.Jobs.SetPaused(w.now, k,
				carillon.PauseOptions{Paused: rapid.Bool().Draw(w.rt, "paused"),
					CatchUp: rapid.Bool().Draw(w.rt, "catch up")})
		}),
		w.on(func(k carillon.Key) {
			class := rapid.SampledFrom([]carillon.Priority{carillon.PriorityHigh, carillon.PriorityLow}).Draw(w.rt,
				"priority")
			_, _ = w.m.Jobs.Patch(w.now, 0, k, carillon.Patch{Fields: []string{"priority"},
				Job: carillon.Job{Priority: class}}, "")
		}),
	}
}

// TestEverythingTogether does everything at once to jobs with any of the features, crashes, lost answers and
// failed commits included, and checks what all features promise.
func TestEverythingTogether(t *testing.T) { everythingTogether(t, newRandomRig) }

// TestEverythingTogetherOfDapr does the same to jobs of Dapr, whose attempts end with the node that handed
// them out.
func TestEverythingTogetherOfDapr(t *testing.T) {
	everythingTogether(t, func(rt *rapid.T) *randomRig { return newRandomRig(rt).ofDapr() })
}

// TestEverythingTogetherOfReminders does the same to reminders, of which each may be under several limits.
func TestEverythingTogetherOfReminders(t *testing.T) {
	everythingTogether(t, func(rt *rapid.T) *randomRig { return newRandomRig(rt).ofReminders() })
}

func everythingTogether(t *testing.T, begin func(*rapid.T) *randomRig) {
	rapid.Check(t, func(rt *rapid.T) {
		w := begin(rt)
		acts := w.acts()
		for range 3 {
			w.Put(rt)
		}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(acts)-1), 80, 200).Draw(rt, "acts") {
			acts[i](rt)
			w.maybeCommit(rt)
		}
		w.finish()
	})
}
