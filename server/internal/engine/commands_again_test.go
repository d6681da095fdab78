package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// once has a node do a command about the job a, which is remembered for an hour.
func (n *node) once(request string, c message.Command) (before bool, err error) {
	key := carillon.Key{Namespace: "default", Name: "a"}
	part := store.PartitionOf(key, 5)
	if c.Complete != nil {
		part, _ = message.PartitionOfToken(c.Complete.Token, 5)
		key.Name = ""
	}
	c.Request, c.Key, c.KeepFor = request, key, time.Hour
	return message.Send(context.Background(), n.Engine, part, c)
}

// TestWhatWasDoneIsNotRefusedWhenItComesAgain, though it would be today, by a node that was started since, too:
// a put that exceeds a bound by now, or for which there is no room; a trigger, or a delete of a generation,
// without a job; a completion of a run that is gone from the history.
func TestWhatWasDoneIsNotRefusedWhenItComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &roomless{Store: memory.New(memory.Options{Partitions: 5})}
		n := start(t, disk)
		job := &carillon.Job{Due: carillon.In(1000 * time.Hour), Target: carillon.WorkerQueue("q"),
			History: carillon.History{Runs: -1}, Data: carillon.Bytes(make([]byte, 2000), "")}
		w := n.consume("q", 10, func(carillon.Run) *carillon.Result { return nil })
		all := []struct {
			request string
			c       message.Command
		}{{"put", message.Command{Job: job}}, {"trigger", message.Command{Trigger: &carillon.TriggerOptions{}}},
			{"complete", message.Command{}}, {"delete", message.Command{IfGeneration: 1}}}
		for i := range all {
			d := &all[i]
			if d.request == "complete" {
				time.Sleep(time.Second)
				d.c.Complete = &carillon.Result{Token: w.got()[0].Token, Outcome: carillon.OutcomeSuccess}
			}
			if before, err := n.once(d.request, d.c); before || err != nil {
				t.Fatalf("%s: %v, %v", d.request, before, err)
			}
		}
		again := func(n *node) {
			t.Helper()
			for _, d := range all {
				if before, err := n.once(d.request, d.c); !before || err != nil {
					t.Errorf("%s comes again: done before %v, %v", d.request, before, err)
				}
				before, err := n.once("another "+d.request, d.c)
				if before || carillon.KindOf(err) != carillon.NotFound && d.c.Job == nil {
					t.Errorf("another %s: done before %v, %v", d.request, before, err)
				}
			}
		}
		disk.full = true
		again(n)
		n.stop()
		disk.full = false
		bounds := carillon.DefaultBounds()
		bounds.Payload = 1000
		n = startWith(t, engine.Config{Store: disk, Limits: bounds})
		again(n)
		if _, err := n.once("third put", all[0].c); !errors.Is(err, carillon.InvalidArgument) {
			t.Errorf("a put that exceeds a bound: %v", err)
		}
		n.stop()
	})
}

// TestARefusalIsToldWhenItIsDurable: what it rests on may be lost with the write that made it so. While that write is
// under way the refusal waits; if the write fails, the command is not refused.
func TestARefusalIsToldWhenItIsDurable(t *testing.T) {
	const ofEach = 20 // what comes at once comes in any order
	later := &carillon.Job{Due: carillon.In(1000 * time.Hour), Target: carillon.WorkerQueue("q")}
	success := func(token string) message.Command {
		return message.Command{Complete: &carillon.Result{Token: token, Outcome: carillon.OutcomeSuccess}}
	}
	failure := func(token string) message.Command {
		return message.Command{Complete: &carillon.Result{Token: token, Outcome: carillon.OutcomeFailure}}
	}
	fixed := func(c message.Command) func(string) message.Command {
		return func(string) message.Command { return c }
	}
	for name, c := range map[string]struct {
		before         bool // there is a job
		first, refused func(token string) message.Command
		kind           carillon.Kind
	}{
		"a create of what is there": {false, fixed(message.Command{Job: later, IfAbsent: true}),
			fixed(message.Command{Job: later, IfAbsent: true}), carillon.AlreadyExists},
		"a trigger of what is gone": {true, fixed(message.Command{}),
			fixed(message.Command{Trigger: &carillon.TriggerOptions{}}), carillon.NotFound},
		"a put of a generation that is over": {true, fixed(message.Command{Job: later}),
			fixed(message.Command{Job: later, IfGeneration: 1}), carillon.FailedPrecondition},
		"a delete of a generation that is over": {true, fixed(message.Command{Job: later}),
			fixed(message.Command{IfGeneration: 1}), carillon.FailedPrecondition},
		"a completion of what is complete": {true, success, failure, carillon.FailedPrecondition},
	} {
		for i := range 2 * ofEach {
			lost := i%2 == 1
			t.Run(fmt.Sprintf("%s, lost %v", name, lost), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := &faulty{Store: memory.New(memory.Options{Partitions: 5})}
					n := start(t, struct{ store.Store }{f})
					w := n.consume("q", 10, func(carillon.Run) *carillon.Result { return nil })
					token := ""
					if c.before {
						for _, m := range []message.Command{{Job: later}, {Trigger: &carillon.TriggerOptions{}}} {
							if _, err := n.once(fmt.Sprint(m.Job != nil), m); err != nil {
								t.Fatal(err)
							}
						}
						time.Sleep(time.Second)
						token = w.got()[0].Token
					}
					refusedWhenDurable(t, n, f, c.first(token), c.refused(token), c.kind, lost)
					n.stop()
				})
			})
		}
	}
}

// refusedWhenDurable has a command done whose write is held, and another one for which that is a reason to be
// refused.
func refusedWhenDurable(t *testing.T, n *node, f *faulty, first, refused message.Command, kind carillon.Kind,
	lost bool) {
	gate := make(chan struct{})
	f.fail(func(apply func() error) error {
		<-gate
		if lost {
			return errors.New("the store does not take it")
		}
		return apply()
	})
	answers := [2]chan error{make(chan error, 1), make(chan error, 1)}
	for i, m := range []message.Command{first, refused} {
		go func() {
			_, err := n.once(fmt.Sprint("command ", i), m)
			answers[i] <- err
		}()
		if m.Complete == nil { // completions come at once: whichever finds the other one done is refused
			time.Sleep(10 * time.Millisecond)
		}
	}
	time.Sleep(10 * time.Millisecond)
	for i := range answers {
		select {
		case err := <-answers[i]:
			t.Fatalf("command %d is answered before the write: %v", i, err)
		default:
		}
	}
	close(gate)
	errs := [2]error{<-answers[0], <-answers[1]}
	if first.Complete != nil && carillon.KindOf(errs[0]) == kind {
		errs[0], errs[1] = errs[1], errs[0]
	}
	f.fail(nil)
	switch {
	case !lost && (errs[0] != nil || carillon.KindOf(errs[1]) != kind):
		t.Errorf("answered %v and %v, want %v", errs[0], errs[1], kind)
	case lost && (errs[0] == nil || errs[1] == nil || carillon.KindOf(errs[1]) == kind):
		t.Errorf("the write is lost, and this is answered: %v and %v", errs[0], errs[1])
	}
	time.Sleep(time.Minute)
}
