package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestAnAttemptInDoubtHoldsOneSlot: of a worker that stays and gets the attempt twice. The store fails while
// the attempt is written, so that the node cannot know whether it was.
func TestAnAttemptInDoubtHoldsOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, f)
		times := 0
		c := n.consume("q", 4, func(carillon.Run) *carillon.Result {
			if times++; times == 1 {
				return nil
			}
			return success(carillon.Run{})
		})
		job := carillon.Job{Name: "a", Schedule: "@every 1m", Repeats: 1, Lease: 10 * time.Second,
			Target: carillon.WorkerQueue("q")}
		if _, err := n.PutJob(ctx, job); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + 100*time.Millisecond)
		f.fail(func(func() error) error { // the batch that makes the attempt durable because of its age
			f.fail(nil)
			return fmt.Errorf("%w: lost", store.ErrUnknown)
		})
		time.Sleep(time.Minute)
		if got := c.got(); len(got) != 2 || got[0].Token != got[1].Token {
			t.Errorf("the same attempt twice is wanted: %+v", got)
		}
		if slots := n.inFlight(); slots != 0 {
			t.Errorf("%d slots are held though nobody has anything", slots)
		}
		n.stop()
	})
}

// putOnce puts a job that is due once, in a minute, and lets time pass until a consumer has it.
func (n *node) putOnce(timeout time.Duration) {
	n.t.Helper()
	job := carillon.Job{Name: "a", Schedule: "@every 1m", Repeats: 1, Lease: 10 * time.Second, Timeout: timeout,
		Target: carillon.WorkerQueue("q")}
	if _, err := n.PutJob(context.Background(), job); err != nil {
		n.t.Fatal(err)
	}
	time.Sleep(time.Minute + 100*time.Millisecond)
}

// loseFor makes every write for a while end with an unknown outcome; none is applied.
func (f *faulty) loseFor(d time.Duration) {
	until := time.Now().Add(d)
	f.fail(func(apply func() error) error {
		if time.Now().Before(until) {
			return fmt.Errorf("%w: lost", store.ErrUnknown)
		}
		return apply()
	})
}

func (c *consumer) say(t *testing.T, req carillon.WorkRequest) {
	t.Helper()
	if err := c.Send(context.Background(), req); err != nil {
		t.Error(err)
	}
}

// TestAnAnswerStopsWhoeverElseHasTheAttempt: the attempt was in doubt, and two workers have it. The first
// reports a result, the other never would. It is told to stop when the result is durable, even if that takes
// one more term.
func TestAnAnswerStopsWhoeverElseHasTheAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		outcome carillon.Outcome
		fails   bool // the store fails when the report comes
		goodbye bool // the report is a disconnect
	}{
		"success":               {outcome: carillon.OutcomeSuccess},
		"failure":               {outcome: carillon.OutcomeFailure},
		"success, in two terms": {outcome: carillon.OutcomeSuccess, fails: true},
		"goodbye":               {goodbye: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
				n := start(t, f)
				first := n.consume("q", 1, silent)
				n.putOnce(time.Hour)
				f.loseFor(time.Second)
				second := n.consume("q", 1, silent)
				time.Sleep(3 * time.Second)
				had, has := first.got(), second.got()
				if len(had) != 1 || len(has) != 1 || had[0].Token != has[0].Token {
					t.Fatalf("one attempt with two workers is wanted: %+v and %+v", had, has)
				}
				if c.fails {
					f.loseFor(time.Second)
				}
				req := carillon.WorkRequest{Goodbye: c.goodbye}
				if !c.goodbye {
					req.Results = []carillon.Result{{Token: had[0].Token, RunID: had[0].ID, Outcome: c.outcome,
						Permanent: true}}
				}
				first.say(t, req)
				time.Sleep(3 * time.Second)
				if !slices.Equal(second.heard().cancels, []string{has[0].Token}) {
					t.Errorf("the other is told to stop %q", second.heard().cancels)
				}
				if slots := n.inFlight(); slots != 0 {
					t.Errorf("%d slots are held though nobody has anything", slots)
				}
				n.stop()
			})
		})
	}
}

// TestTheEndOfAFormerTermStopsNothingInForce: an attempt in doubt is made again, and goes on after the time
// at which it would have ended before.
func TestTheEndOfAFormerTermStopsNothingInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, f)
		first := n.consume("q", 1, silent)
		n.putOnce(20 * time.Second)
		f.loseFor(10 * time.Second)
		second := n.consume("q", 1, silent)
		time.Sleep(13 * time.Second)
		has := second.got()
		if len(has) != 1 || len(first.got()) != 1 || has[0].Token != first.got()[0].Token {
			t.Fatalf("one attempt with two workers is wanted: %+v and %+v", first.got(), has)
		}
		for range 7 { // beyond the lease of the first attempt, and the grace
			time.Sleep(2 * time.Second)
			second.say(t, carillon.WorkRequest{Heartbeats: []carillon.Heartbeat{{Token: has[0].Token, RunID: has[0].ID}}})
		}
		if len(second.heard().cancels) > 0 {
			t.Errorf("it was told to stop %q", second.heard().cancels)
		}
		second.say(t, carillon.WorkRequest{Results: []carillon.Result{
			{Token: has[0].Token, RunID: has[0].ID, Outcome: carillon.OutcomeSuccess}}})
		time.Sleep(time.Second)
		if second.heard().acks != 1 || n.inFlight() != 0 {
			t.Errorf("%d acknowledgements, %d in flight", second.heard().acks, n.inFlight())
		}
		n.stop()
	})
}

// TestAnotherNodeTakesBackNothingOfThisTerm: a former owner reports that it never sent an attempt. This node
// has made it again under the same token, and its worker has it.
func TestAnotherNodeTakesBackNothingOfThisTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 1}))
		c := n.consume("q", 2, silent)
		n.putOnce(time.Hour)
		if _, err := message.Send(context.Background(), n, 0,
			message.RelayReports{Undelivered: []string{c.got()[0].Token}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		got := c.got()
		if len(got) != 1 {
			t.Errorf("it was handed out %d times", len(got))
		}
		c.say(t, carillon.WorkRequest{Results: []carillon.Result{{Token: got[0].Token, RunID: got[0].ID,
			Outcome: carillon.OutcomeSuccess}}})
		time.Sleep(time.Second)
		if c.heard().acks != 1 {
			t.Error("its result was not taken")
		}
		n.stop()
	})
}

// TestAFormerOwnerTakesBackNothingSentSince: an owner says that it never sent an attempt. The next one was in
// doubt about it and sent it under the same token. The third one must leave it to whoever has it.
func TestAFormerOwnerTakesBackNothingSentSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, f)
		c := n.consume("q", 9, silent)
		n.putOnce(time.Hour)
		f.loseFor(time.Second)
		time.Sleep(4 * time.Second)
		sent := c.got()
		if len(sent) != 2 || sent[0].Token != sent[1].Token {
			t.Fatalf("one attempt in doubt is wanted: %+v", sent)
		}
		f.loseFor(100 * time.Millisecond)
		if _, err := n.PutJob(context.Background(), carillon.Job{Name: "b", Due: carillon.In(time.Hour),
			Target: carillon.WorkerQueue("q")}); err == nil {
			t.Fatal("the second term goes on")
		}
		time.Sleep(2 * time.Second)
		if _, err := message.Send(context.Background(), n, 0,
			message.RelayReports{Undelivered: []string{sent[0].Token}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := c.got(); len(got) != 2 {
			t.Errorf("it was handed out %d times", len(got))
		}
		n.stop()
	})
}

// TestWhatThisNodeDidNotSendGoesOutAtOnce: an attempt in doubt is made again, for a consumer that takes only
// what is durable. The store makes it durable and does not say so, so it is not sent, and the term ends. The
// next term of the same node does not wait for the attempt's lease.
func TestWhatThisNodeDidNotSendGoesOutAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, f)
		n.consume("q", 1, silent)
		n.putOnce(time.Hour)
		second := n.consumeHere("q", 1, silent)
		writes := 0
		f.fail(func(apply func() error) error {
			switch writes++; writes {
			case 1: // makes the attempt durable because of its age
				return fmt.Errorf("%w: lost", store.ErrUnknown)
			case 3: // the first one of the next term, after its record
				return errors.Join(apply(), fmt.Errorf("%w: lost", store.ErrUnknown))
			}
			return apply()
		})
		time.Sleep(5 * time.Second)
		if got := second.got(); len(got) != 1 || got[0].Attempt != 1 {
			t.Errorf("the first attempt is wanted: %+v", got)
		}
		n.stop()
	})
}

// TestAnAnswerThatComesByAnother: on the node that handed an attempt out, a silent worker's slot is given
// back when another worker there, which got the attempt from the next owner, reports its result.
func TestAnAnswerThatComesByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 2}), 2, nil)
		f.deal(func(int) int { return 0 })
		f.settled()
		n := f.nodes[0]
		mute := n.consume("q", 1, silent)
		j := carillon.Job{Name: f.at(0, 0), Target: carillon.WorkerQueue("q"), Lease: 5 * time.Second,
			Timeout: 30 * time.Second}
		if _, err := n.PutJob(context.Background(), j); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		f.deal(func(int) int { return 1 })
		f.settled()
		run := mute.got()[0]
		n.consume("q", 0, silent).say(t, carillon.WorkRequest{Results: []carillon.Result{
			{Token: run.Token, RunID: run.ID, Outcome: carillon.OutcomeSuccess}}})
		time.Sleep(40 * time.Second)
		if slots := n.inFlight(); slots != 0 {
			t.Errorf("%d slots are held though the attempt is over", slots)
		}
		f.stop()
	})
}
