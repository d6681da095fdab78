package deliveries_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// at is a moment of the accounts below, in milliseconds.
func at(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }

// account is a ledger and the history that it is matched with.
type account struct {
	deliveries.Ledger
	deliveries.History
}

// Places of deliveries and of records in the true account.
const (
	hookFails, hookSucceeds, streamed, beforeKill, afterKill, tick1, tick2 = 0, 1, 2, 3, 4, 5, 6
	hookRun, streamRun, killedRun, refusedRun, missed                      = 0, 1, 2, 3, 6
)

// request and message are deliveries.
func request(run, job string, attempt, ms int, a deliveries.Answer) deliveries.Delivery {
	return deliveries.Delivery{Run: run, Job: job, Life: "life of " + job, Cause: "schedule",
		Scheduled: at(ms - ms%1000), Attempt: attempt,
		Token: run, Receiver: "endpoint", Conn: "127.0.0.1:1", Timeout: time.Second, At: at(ms),
		Word: deliveries.Word{Answer: a, Answered: at(ms + 10)}}
}

func message(run, job string, attempt, ms int, a deliveries.Answer, r deliveries.Reply) deliveries.Delivery {
	d := request(run, job, attempt, ms, a)
	d.Receiver, d.Stream, d.Conn, d.Lease, d.Timeout, d.Started = "worker", true, "", 2*time.Second,
		time.Minute, at(ms-1)
	d.Reply, d.Replied = r, at(ms+20)
	return d
}

func record(run, job, status string, attempt, ms int, errs ...deliveries.AttemptError) deliveries.Run {
	return deliveries.Run{ID: run, Job: job, Life: "life of " + job, Status: status, Cause: "schedule",
		Scheduled: at(ms), Attempt: attempt,
		Errors: errs, Finished: at(ms + 900)}
}

// truth is an account in which all is as it should be: a request that is tried again, a message, an attempt
// that was in flight at a kill and is delivered again, one whose connection was refused, a job of two runs,
// and times that were missed.
func truth() account {
	return account{
		deliveries.Ledger{
			Seen: []deliveries.Delivery{
				request("H", "hook", 1, 1000, deliveries.Failure),
				request("H", "hook", 2, 1500, deliveries.Success),
				message("S", "stream", 1, 2000, deliveries.Success, deliveries.Acked),
				message("K", "killed", 1, 4950, deliveries.NoAnswer, deliveries.NoReply),
				message("K", "killed", 1, 6000, deliveries.Success, deliveries.Acked),
				request("T1", "twice", 1, 20_000, deliveries.Success),
				request("T2", "twice", 1, 21_000, deliveries.Success),
			},
			Losses: []deliveries.Loss{{Receiver: "endpoint", From: at(30_000), To: at(30_100)}},
		},
		deliveries.History{
			Runs: []deliveries.Run{
				record("H", "hook", "succeeded", 2, 1000, deliveries.AttemptError{Attempt: 1, At: at(1020),
					Message: "500"}),
				record("S", "stream", "succeeded", 1, 2000),
				record("K", "killed", "succeeded", 1, 4000),
				record("F", "refused", "failed", 1, 30_000, deliveries.AttemptError{Attempt: 1,
					At: at(30_050), Message: "refused"}),
				record("T1", "twice", "succeeded", 1, 20_000),
				record("T2", "twice", "succeeded", 1, 21_000),
				{ID: "M", Job: "killed", Life: "life of killed", Status: "skipped", Reason: "misfire",
					Cause: "schedule", From: at(5000),
					Scheduled: at(5000), Skipped: 1, Finished: at(5900)},
			},
			Jobs: []deliveries.Job{{Name: "twice", Acked: true, Repeats: 2}, {Name: "killed"}},
			Live: []deliveries.Live{{Job: "killed", Life: "life of killed", Fired: 1, Succeeded: 1,
				SkippedN: 1}},
			Breaks: []deliveries.Break{
				{Kind: "kill", From: at(5000), To: at(5800), Ends: true},
				{Kind: "cut off from peers", From: at(40_000), To: at(41_000)},
			},
			Slack: deliveries.Slack{Wire: 100 * time.Millisecond, Lazy: time.Second, Tick: 200 * time.Millisecond,
				Recovery: 3 * time.Second, Errors: 10},
		},
	}
}

// rules are those that an account breaks.
func rules(a account) (out []string) {
	for _, v := range deliveries.Audit(a.Ledger, a.History) {
		out = append(out, v.Rule)
	}
	return slices.Compact(out)
}

// touch notes a call that changed a job.
func (a *account) touch(job string, ms int) {
	a.Touches = append(a.Touches, deliveries.Touch{Job: job, From: at(ms), To: at(ms + 5)})
}

// forget takes a record out of the history.
func (a *account) forget(i int) { a.Runs = slices.Delete(a.Runs, i, i+1) }

// lies are what a system may say that is not so, each beside the excuse that makes it true.
var lies = []struct {
	name string
	tell func(a *account)
	want string // the rule; "" = none
}{
	{"the truth", func(*account) {}, ""},
	{"a run that was seen is not there",
		func(a *account) { a.forget(streamRun); a.Seen[streamed].Reply = "" }, "denied"},
	{"so, after a change without a kill", func(a *account) {
		a.forget(streamRun)
		a.Seen[streamed].Reply = ""
		a.touch("stream", 2100)
	}, "denied"},
	{"a kill, without a change", func(a *account) { a.forgetKilled() }, "denied"},
	{"a kill, and then a change", func(a *account) { a.forgetKilled(); a.touch("killed", 5900) }, ""},
	{"a kill, and a change long after", func(a *account) { a.forgetKilled(); a.touch("killed", 9900) },
		"denied"},
	{"a run that was seen was skipped", func(a *account) {
		a.Runs[hookRun].Status, a.Runs[hookRun].Reason = "skipped", "misfire"
	}, "skipped"},
	{"its time is within a stretch", func(a *account) { a.Runs[missed].From = at(4000) }, "skipped"},
	{"a stretch of another life", func(a *account) {
		a.Runs[missed].From, a.Runs[missed].Life,
			a.Live = at(4000), "another", nil
	}, ""},
	{"fewer attempts than were seen", func(a *account) { a.Seen[hookSucceeds].Attempt = 3 }, "count nobody"},
	{"no attempt of one that was seen", func(a *account) {
		a.Runs[hookRun].Attempt, a.Runs[hookRun].Status = 0, "failed"
	}, "count"},
	{"an acknowledged success has failed", func(a *account) { a.Runs[streamRun].Status = "failed" },
		"success"},
	{"so, whatever went wrong", func(a *account) {
		a.Runs[streamRun].Status = "failed"
		a.touch("stream", 2000)
		a.Breaks[0].From = at(1900)
	}, "success"},
	{"an answer of 200 has failed", func(a *account) { a.Runs[hookRun].Status = "dead"; a.Seen = a.Seen[1:] },
		"success unseen"},
	{"so, when the job was deleted", func(a *account) {
		a.Runs[4].Status = "cancelled"
		a.touch("twice", 20_005)
	}, ""},
	{"so, when nothing was wrong", func(a *account) { a.Runs[4].Status = "cancelled" }, "success"},
	{"so, when its owner was killed", func(a *account) {
		a.Runs[4].Status = "failed"
		a.Breaks[0].From, a.Breaks[0].To, a.Seen = at(4900), at(20_005), a.Seen[:7]
	}, ""},
	{"a success that nobody answered", func(a *account) { a.Seen[hookSucceeds].Answer = deliveries.Failure },
		"nobody"},
	{"a success of another attempt", func(a *account) {
		a.Runs[hookRun].Attempt = 3
	}, "nobody"},
	{"a success that nobody saw", func(a *account) { a.Seen = slices.Delete(a.Seen, streamed, streamed+1) },
		"nobody"},
	{"an attempt that nobody saw", func(a *account) { a.Losses = nil }, "unseen"},
	{"so, with no error", func(a *account) { a.Runs[refusedRun].Errors = nil }, "unseen"},
	{"so, fenced by a change", func(a *account) {
		a.Seen = a.Seen[1:]
		a.Runs[hookRun].Errors = nil
		a.touch("hook", 1200)
	}, ""},
	{"so, without a change", func(a *account) { a.Seen = a.Seen[1:]; a.Runs[hookRun].Errors = nil },
		"unseen"},
	{"so, in doubt, and cancelled", func(a *account) { a.cancel(5000, 2, 1) }, ""},
	{"so, one more than was in doubt", func(a *account) { a.cancel(5000, 3, 1) }, "unseen"},
	{"so, and no owner had ended", func(a *account) { a.cancel(16_500, 2, 1) }, "unseen"},
	{"so, cancelled before it left", func(a *account) {
		a.Runs[refusedRun].Errors,
			a.Runs[refusedRun].Status = nil, "cancelled"
	}, ""},
	{"one attempt twice", func(a *account) { a.again(hookSucceeds, 5) }, "twice"},
	{"so, over a kill", func(a *account) { a.again(beforeKill, 900) }, ""},
	{"so, over what ends no owner", func(a *account) {
		a.Seen = append(a.Seen, request("P", "cut", 1, 39_990, deliveries.Failure), request("P", "cut", 1,
			40_990, deliveries.Success))
		a.Runs = append(a.Runs, record("P", "cut", "succeeded", 1, 39_000))
	}, "twice"},
	{"again with another token", func(a *account) { a.Seen[afterKill].Token = "other" }, "token"},
	{"a valid result is stale", func(a *account) { a.refuse(beforeKill, 5900) }, "refused"},
	{"so, after its lease", func(a *account) { a.refuse(beforeKill, 7900) }, ""},
	{"so, of a job that was changed", func(a *account) {
		a.refuse(beforeKill, 5900)
		a.touch("killed",
			5000)
	}, ""},
	{"so, on a link that was cut beyond the lease", func(a *account) { a.holdUp(8000, 8010) }, ""},
	{"so, and told before the lease ended", func(a *account) { a.holdUp(8000, 6500) }, "refused"},
	{"so, at a halted node that passes it on", func(a *account) {
		a.holdUp(8000, 8010)
		a.Breaks[len(a.Breaks)-1].Node, a.Seen[beforeKill].Node = "b", "a"
	}, ""},
	{"so, at its halted owner", func(a *account) {
		a.holdUp(8000, 8010)
		a.Breaks[len(a.Breaks)-1].Node, a.Seen[beforeKill].Node = "a", "a"
	}, "refused"},
	{"so, when another has handed it out again", func(a *account) { a.takeOver(8400) }, ""},
	{"so, before the lease that it gave ended", func(a *account) { a.takeOver(7600) }, "refused"},
	{"so, on a link that was whole in time", func(a *account) { a.holdUp(6500, 8010) }, "refused"},
	{"a failure counts, and then a success is stale", func(a *account) {
		a.more(deliveries.Acked, deliveries.Success, deliveries.Stale)
	}, ""},
	{"so, and the success is acknowledged", func(a *account) {
		a.more(deliveries.Stale, deliveries.Success, deliveries.Acked)
	}, "success"},
	{"a failure is stale though it was first", func(a *account) {
		a.more(deliveries.Stale, deliveries.NoAnswer, deliveries.NoReply)
	}, "refused"},
	{"a success that is said twice is stale", func(a *account) {
		a.refuse(beforeKill, 5900)
		d := &a.Seen[beforeKill]
		d.More = []deliveries.Word{{Answer: deliveries.Success, Answered: at(5950), Reply: deliveries.Acked,
			Replied: at(5960)}}
	}, "refused"},
	{"a success is the second answer", func(a *account) {
		d := &a.Seen[streamed]
		d.More = []deliveries.Word{d.Word}
		d.Answer, d.Reply = deliveries.Failure, deliveries.Stale
	}, ""},
	{"more runs than repeats", func(a *account) { a.Jobs[0].Repeats = 1 }, "repeats"},
	{"fewer runs than repeats", func(a *account) { a.Jobs[0].Repeats = 3 }, "repeats"},
	{"so, of a job that goes on", func(a *account) {
		a.Jobs[0].Repeats = 3
		a.Live = append(a.Live, deliveries.Live{Job: "twice", Life: "life of twice", Fired: 2, Succeeded: 2})
	}, ""},
	{"so, of one that was changed", func(a *account) { a.Jobs[0].Repeats = 1; a.touch("twice", 20_500) }, ""},
	{"none at all of an acknowledged job", func(a *account) {
		a.Jobs = append(a.Jobs, deliveries.Job{Name: "none", Acked: true, Repeats: 1})
	}, "repeats"},
	{"none of one that was not", func(a *account) {
		a.Jobs = append(a.Jobs, deliveries.Job{Name: "none",
			Repeats: 1})
	}, ""},
	{"a run counted twice", func(a *account) { a.Live[0].Fired++ }, "counters"},
	{"a success not counted", func(a *account) { a.Live[0].Succeeded-- }, "counters"},
	{"a dead run too many", func(a *account) { a.Live[0].Dead++ }, "counters"},
	{"a skip not counted", func(a *account) { a.Live[0].SkippedN = 0 }, "counters"},
	{"a stopped worker gets more", func(a *account) { a.stop(4000) }, "stopped"},
	{"so, while its leases go on", func(a *account) { a.stop(1000) }, ""},
	{"so, when its run was replaced", func(a *account) {
		a.stop(4000)
		a.Runs[len(a.Runs)-2].Finished = at(51_000)
	}, ""},
	{"so, of another node", func(a *account) { a.stop(4000); a.Seen[len(a.Seen)-1].Node = "b" }, ""},
	{"so, of the same node", func(a *account) {
		a.stop(4000)
		a.Seen[len(a.Seen)-1].Node, a.Seen[len(a.Seen)-2].Node = "b", "b"
	}, "stopped"},
}

// cancel has a run cancelled with attempts that nobody saw, some of them in doubt.
func (a *account) cancel(ms, attempts, inDoubt int) {
	a.Runs[refusedRun].InDoubt = inDoubt
	a.Runs[refusedRun].Errors, a.Runs[refusedRun].Status, a.Runs[refusedRun].Attempt = nil, "cancelled",
		attempts
	a.Runs[refusedRun].Scheduled, a.Runs[refusedRun].Finished = at(ms), at(ms+900)
}

// forgetKilled takes the run that was in flight at the kill out of the account, but for its first delivery.
func (a *account) forgetKilled() {
	a.Seen = slices.Delete(a.Seen, afterKill, afterKill+1)
	a.forget(killedRun)
	a.Live = nil
}

// again delivers something once more.
func (a *account) again(i, ms int) {
	d := a.Seen[i]
	d.At = d.At.Add(time.Duration(ms) * time.Millisecond)
	a.Seen = append(a.Seen, d)
}

// refuse has an attempt answered, and refused; it was delivered once.
func (a *account) refuse(i, ms int) {
	d := &a.Seen[i]
	d.Answer, d.Answered, d.Reply, d.Replied = deliveries.Success, at(ms), deliveries.Stale, at(ms+10)
	a.Seen = slices.Delete(a.Seen, afterKill, afterKill+1)
}

// more has the message that was acknowledged as a success fail first, and what else its worker says come
// then.
func (a *account) more(first deliveries.Reply, then deliveries.Answer, reply deliveries.Reply) {
	a.Runs[streamRun].Status = "failed"
	d := &a.Seen[streamed]
	d.Answer, d.Reply = deliveries.Failure, first
	if then != deliveries.NoAnswer {
		d.More = []deliveries.Word{{Answer: then, Answered: at(2015), Reply: reply, Replied: at(2030)}}
	}
}

// holdUp has a valid result, on a link that is cut until one moment, told to be stale at another.
func (a *account) holdUp(until, told int) {
	a.refuse(beforeKill, 5900)
	a.Seen[beforeKill].Replied = at(told)
	a.Breaks = append(a.Breaks, deliveries.Break{Kind: "cut off from clients", From: at(5850), To: at(until),
		Holds: true})
}

// takeOver halts the owner of an attempt, which another hands out again, to a worker that crashes. The result
// that the first one kept is told to be stale at a moment.
func (a *account) takeOver(told int) {
	a.holdUp(8000, told)
	a.Breaks[len(a.Breaks)-1].Node, a.Seen[beforeKill].Node = "a", "a"
	again := message("K", "killed", 1, 5900, deliveries.NoAnswer, deliveries.NoReply)
	again.Node = "b"
	a.Seen = append(a.Seen, again)
}

// stop halts a worker with a lease of 2 s, and hands it another attempt a while after the first.
func (a *account) stop(ms int) {
	a.Stops = []deliveries.Stop{{Receiver: "worker", From: at(49_000), To: at(60_000)}}
	for i, d := range []deliveries.Delivery{
		message("Z1", "z", 1, 50_000, deliveries.Failure, deliveries.Acked),
		message("Z2", "z", 1, 50_000+ms, deliveries.Failure, deliveries.Acked),
	} {
		d.At = at(60_000 + i)
		a.Seen = append(a.Seen, d)
		a.Runs = append(a.Runs, record(d.Run, "z", "failed", 1, 50_000))
		a.Runs[len(a.Runs)-1].Finished = d.At
	}
}

// TestEachLieIsFound tells one at a time.
func TestEachLieIsFound(t *testing.T) {
	for _, c := range lies {
		t.Run(c.name, func(t *testing.T) {
			a := truth()
			c.tell(&a)
			got := ""
			for i, r := range rules(a) {
				if i > 0 {
					got += " "
				}
				got += r
			}
			if got != c.want {
				t.Errorf("breaks %q, want %q: %v", got, c.want, deliveries.Audit(a.Ledger, a.History))
			}
		})
	}
}

// TestABookKeepsEachAnswer with what the system said to it: an acknowledged failure is no acknowledged
// success.
func TestABookKeepsEachAnswer(t *testing.T) {
	var b deliveries.Book
	i := b.Saw(deliveries.Delivery{Run: "R"})
	b.Answered(i, deliveries.NoAnswer, at(0)) // it hangs
	failure := b.Answered(i, deliveries.Failure, at(1))
	success := b.Answered(i, deliveries.Success, at(2))
	b.Replied(i, failure, deliveries.Stale, at(3)) // that was of a heartbeat
	b.Replied(i, failure, deliveries.Acked, at(4))
	b.Replied(i, success, deliveries.Stale, at(5))
	b.Replied(i, failure, deliveries.Stale, at(6))
	b.Lost(deliveries.Loss{Receiver: "w"})
	b.Stopped(deliveries.Stop{Receiver: "w"})
	l := b.Ledger()
	d := l.Seen[i]
	first := deliveries.Word{Answer: deliveries.Failure, Answered: at(1),
		Reply: deliveries.Acked, Replied: at(4)}
	second := deliveries.Word{Answer: deliveries.Success, Answered: at(2),
		Reply: deliveries.Stale, Replied: at(5)}
	if d.Word != first || len(d.More) != 1 || d.More[0] != second || d.At.IsZero() {
		t.Errorf("the book has %+v", d)
	}
	if len(l.Losses) != 1 || len(l.Stops) != 1 {
		t.Errorf("the book has %d losses and %d stops", len(l.Losses), len(l.Stops))
	}
}
