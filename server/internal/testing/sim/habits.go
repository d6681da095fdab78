package sim

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// attemptOfToken is the attempt that a token names; whoever has the key can read it.
func attemptOfToken(token string) (int, error) {
	tok, err := message.ParseToken(token, macKey())
	return tok.Attempt, err
}

// termOfToken is the partition of a token's run and the epoch under which it was granted.
func termOfToken(token string) (number int, epoch uint64) {
	tok, err := message.ParseToken(token, macKey())
	if err != nil {
		return 0, 0
	}
	return int(tok.Run.Partition), tok.Grant.Term.Epoch
}

// macKey is the key of all simulated stores.
func macKey() []byte {
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(i)
	}
	return key
}

// luck is that of one attempt: it hangs on what is run, not on who runs it when.
func (w *world) luck(what string, r *carillon.Run, nth int) *rand.Rand {
	return w.chance.about(what+r.Namespace+"/"+r.Job, uint64(r.Scheduled.UnixNano()), uint64(r.Cause),
		uint64(r.Attempt), uint64(nth))
}

// habit draws what goes wrong with an attempt; "" is nothing.
func (w *world) habit(luck *rand.Rand, among map[string]bool) string {
	x := luck.Float64()
	for _, h := range w.plan.Habits {
		if !among[h.Kind] {
			continue
		}
		if x < h.Share {
			return h.Kind
		}
		x -= h.Share
	}
	return ""
}

// workerHabits are those that treat knows.
var workerHabits = map[string]bool{Fails: true, Permanent: true, Later: true, Twice: true, Hangs: true,
	Crashes: true, Leaves: true,
	MadeUp: true, LongHeartbeats: true, Forgets: true, Progresses: true, Reschedules: true}

// among are the habits of a worker: one that stays to the end does not go before.
func (k *worker) among() map[string]bool {
	if k.plan.Reforms == 0 {
		return workerHabits
	}
	stays := maps.Clone(workerHabits)
	delete(stays, Crashes)
	delete(stays, Leaves)
	return stays
}

var success = carillon.Result{Outcome: carillon.OutcomeSuccess}

// treat does one run, well or badly.
func (k *worker) treat(c *conn, r *carillon.Run, nth int) {
	luck := k.w.luck("treat", r, nth)
	habit := ""
	good := k.plan.Good || k.plan.Reforms > 0 && !time.Now().Before(k.w.at(k.plan.Reforms))
	if !good && time.Now().Before(k.w.at(k.plan.To)) {
		habit = k.w.habit(luck, k.among())
	}
	most := 1500 * time.Millisecond
	if good {
		most = cmp.Or(k.w.plan.Work, 20*time.Millisecond)
	}
	if k.wait(c, r, between(luck, time.Millisecond, most)) != nil {
		return
	}
	switch habit {
	case "":
		k.report(c, r, success)
	case Fails:
		k.report(c, r, carillon.Result{Message: "sim"})
	case Permanent:
		k.report(c, r, carillon.Result{Message: "sim", Permanent: true})
	case Later:
		k.report(c, r, carillon.Result{Message: "sim", RetryAfter: between(luck, time.Second, 6*time.Second)})
	case Reschedules:
		k.report(c, r, carillon.Result{Outcome: carillon.OutcomeReschedule,
			At: time.Now().Add(between(luck, 0, 5*time.Second))})
	default:
		k.misbehave(c, r, luck, habit)
	}
}

// misbehave is what takes more than one word.
func (k *worker) misbehave(c *conn, r *carillon.Run, luck *rand.Rand, habit string) {
	switch habit {
	case Twice:
		k.report(c, r, success)
		if k.wait(c, r, between(luck, 0, 3*time.Second)) == nil {
			k.report(c, r, success)
		}
	case Hangs:
		if k.wait(c, r, r.Lease+between(luck, 0, 5*time.Second)) == nil {
			k.report(c, r, success)
		}
	case Forgets:
		k.gaveUp(r)
		k.send(c.node.number, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: r.Queue, N: 1}}})
	case Crashes:
		defer k.w.rec.Break(checker.Fault{Kind: "worker crash", Targets: []string{k.plan.Name}})()
		k.gaveUp(r)
		k.crash(c.process)
	case Leaves:
		defer k.w.rec.Break(checker.Fault{Kind: "worker goodbye", Targets: []string{k.plan.Name}})()
		k.gaveUp(r)
		k.goodbye(c.process)
	case MadeUp:
		k.forge(c, r)
		if k.wait(c, r, between(luck, 0, time.Second)) == nil {
			k.report(c, r, success)
		}
	case Progresses, LongHeartbeats:
		k.takeLong(c, r, luck, habit)
	}
}

// forge sends a success with a token that no attempt has: one that is no token, and one of the next attempt.
func (k *worker) forge(c *conn, r *carillon.Run) {
	tokens := []string{"made-up" + r.Token}
	if tok, err := message.ParseToken(r.Token, macKey()); err == nil {
		tok.Grant.Term.Nonce++
		tokens = append(tokens, tok.Sign(macKey()))
	}
	for _, t := range tokens {
		k.mu.Lock()
		i := k.w.rec.Sent(checker.Result{RunID: r.ID, Token: t, Number: r.Attempt, Kind: checker.Fabricated})
		k.sent[t] = append(k.sent[t], i)
		k.mu.Unlock()
		k.send(c.node.number, carillon.WorkRequest{Results: []carillon.Result{{Token: t, RunID: r.ID,
			Outcome: carillon.OutcomeSuccess}}})
	}
}

// takeLong works for longer than a lease, and says so now and then.
func (k *worker) takeLong(c *conn, r *carillon.Run, luck *rand.Rand, habit string) {
	for range 2 + luck.IntN(4) {
		if k.wait(c, r, between(luck, r.Lease/5, r.Lease/3)) != nil {
			return
		}
		if habit == Progresses && luck.IntN(2) == 0 {
			k.report(c, r, carillon.Result{Outcome: carillon.OutcomeProgress,
				Progress: carillon.Progress{Percent: float64(luck.IntN(100))}})
		}
		k.w.rec.Heartbeat(checker.Heartbeat{RunID: r.ID, Token: r.Token})
		k.send(c.node.number, carillon.WorkRequest{Heartbeats: []carillon.Heartbeat{{Token: r.Token, RunID: r.ID}}})
	}
	k.report(c, r, success)
}
