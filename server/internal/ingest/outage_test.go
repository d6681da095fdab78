package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/message"
)

// away is a node that answers nothing until it is back.
type away struct {
	back <-chan struct{}
	done func(n int)
}

func (a away) wait(ctx context.Context, n int) error {
	select {
	case <-a.back:
		a.done(n)
		return nil
	case <-ctx.Done():
		return carillon.Errorf(carillon.Unavailable, "", "the store is away")
	}
}

func (a away) Do(ctx context.Context, _ message.Command) (bool, error) { return false, a.wait(ctx, 1) }

func (a away) DoAll(ctx context.Context, _ int, all []message.Command) ([]message.Decision, error) {
	if err := a.wait(ctx, len(all)); err != nil {
		return nil, err
	}
	decided := make([]message.Decision, len(all))
	for i := range decided {
		decided[i] = message.Done
	}
	return decided, nil
}

func (away) PartitionOf(carillon.Key) int { return 0 }

// locked is a text that several goroutines write.
type locked struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *locked) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// TestAnOutageOfCommandsTogether is logged once, and counted for each message, when the time of the first call
// is over: not when each message has been tried alone as well. Its end is logged once.
func TestAnOutageOfCommandsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 50
		var mu sync.Mutex
		counted, done := map[Outcome]int{}, 0
		count := func(o Outcome) int {
			mu.Lock()
			defer mu.Unlock()
			return counted[o]
		}
		back, log := make(chan struct{}), &locked{}
		to := away{back: back, done: func(n int) {
			mu.Lock()
			defer mu.Unlock()
			done += n
		}}
		source := &given{in: make(chan []*broker.Delivery)}
		g := startGivenLogged(t, to, most, map[string]*given{"topic": source}, &given{}, func(o Outcome) {
			mu.Lock()
			defer mu.Unlock()
			counted[o]++
		}, slog.NewTextHandler(log, nil))
		var all []*broker.Delivery
		for i := range most {
			all = append(all, source.delete(fmt.Sprint("job", i), i))
		}
		source.in <- all
		<-time.After(callWithin + time.Millisecond)
		synctest.Wait()
		const away, over = "commands cannot be done at present", "no command is tried again any more"
		if n := count(Retried); n != most {
			t.Errorf("after %v %d of %d messages are counted as retried", callWithin, n, most)
		}
		if n := log.count(away); n != 1 || log.count("the store is away") != 1 {
			t.Errorf("the outage is logged %d times", n)
		}
		close(back)
		<-time.After(time.Minute)
		synctest.Wait()
		if n := log.count(over); n != 1 || log.count(away) != 1 {
			t.Errorf("its end is logged %d times", n)
		}
		if count(Done) != most || done != most {
			t.Errorf("%d of %d messages are done, %d counted", done, most, count(Done))
		}
		g.Close(t.Context())
	})
}

// TestWhyATopicIsHeldUp is shown of that topic alone, with the last error, whether a command cannot be done or the
// dead-letter topic does not take a message, and as long as that is so. What the store says is not shown.
func TestWhyATopicIsHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sources := map[string]*given{}
		for _, name := range []string{"alone", "away", "busy", "dead"} {
			sources[name] = &given{in: make(chan []*broker.Delivery)}
		}
		var tried, refusals, fails atomic.Int64
		fails.Store(1)
		to := alone(func(_ context.Context, c message.Command) (bool, error) {
			switch {
			case c.Refusal != nil || c.Key.Name == "refused":
				return false, carillon.Errorf(carillon.InvalidArgument, "x", "refused")
			case c.Key.Name == "busy" && fails.Load() == 1:
				return false, carillon.Errorf(carillon.ResourceExhausted, "quotas.jobs", "try %d", tried.Add(1))
			case c.Key.Name == "away" && fails.Load() == 1:
				return false, carillon.Errorf(carillon.Unavailable, "", "no connection to carillon@10.0.0.1/jobs")
			}
			return false, nil
		})
		letters := &refusing{fails: &fails, n: &refusals}
		g := startGiven(t, to, 10, sources, letters, func(Outcome) {})
		defer g.Close(t.Context())
		sources["alone"].in <- []*broker.Delivery{sources["alone"].delete("a", 1)}
		sources["away"].in <- []*broker.Delivery{sources["away"].delete("away", 4)}
		sources["busy"].in <- []*broker.Delivery{sources["busy"].delete("busy", 2)}
		sources["dead"].in <- []*broker.Delivery{sources["dead"].delete("refused", 3)}
		<-time.After(time.Minute)
		synctest.Wait()
		want := func(when string, texts ...string) {
			t.Helper()
			for i, s := range g.Status("n") {
				if got := s.Readers[0].Retrying; got != texts[i] {
					t.Errorf("%s: of topic %s is shown %q, not %q", when, s.Topic, got, texts[i])
				}
			}
		}
		want("while they fail", "", "the owner of the partition, or its store, cannot do it at present; "+
			"the log of the node says why", fmt.Sprint("try ", tried.Load()), "the broker says no")
		if tried.Load() < 2 || refusals.Load() < 2 {
			t.Fatalf("%d and %d tries", tried.Load(), refusals.Load())
		}
		fails.Store(0)
		<-time.After(time.Minute)
		synctest.Wait()
		want("when they are done", "", "", "", "")
	})
}

// refusing takes no message while it fails.
type refusing struct {
	broker.Client
	fails, n *atomic.Int64
}

func (r *refusing) Publish(_ context.Context, ms []broker.Message, sent func(int, error)) {
	for i := range ms {
		if r.fails.Load() == 1 {
			r.n.Add(1)
			sent(i, errors.New("the broker says no"))
			continue
		}
		sent(i, nil)
	}
}

func (*refusing) Close() error { return nil }

// apart leaves out the first of several commands, and fails the others.
type apart struct{ alone }

func (apart) DoAll(_ context.Context, _ int, all []message.Command) ([]message.Decision, error) {
	decided := make([]message.Decision, len(all))
	decided[0] = message.Apart
	return decided, carillon.Errorf(carillon.Unavailable, "", "the store is away")
}

// TestWhatWasNotTriedIsNotTriedAgain: messages that were left out of a group go on alone, and do not count as retried.
func TestWhatWasNotTriedIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var retried, done atomic.Int64
		source := &given{in: make(chan []*broker.Delivery)}
		g := startGiven(t, apart{func(context.Context, message.Command) (bool, error) { return false, nil }}, 10,
			map[string]*given{"topic": source}, &given{}, func(o Outcome) {
				switch o {
				case Retried:
					retried.Add(1)
				case Done:
					done.Add(1)
				}
			})
		defer g.Close(t.Context())
		source.in <- []*broker.Delivery{source.delete("a", 1), source.delete("b", 2), source.delete("c", 3)}
		<-time.After(time.Minute)
		synctest.Wait()
		if retried.Load() != 2 || done.Load() != 3 {
			t.Errorf("of 3 messages, one of which was not tried, %d are retried and %d done", retried.Load(), done.Load())
		}
	})
}

// TestWhatIsReleasedHoldsNothingUp: a message that the dead-letter topic did not take, and that another node has
// then, is no reason any more.
func TestWhatIsReleasedHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &given{in: make(chan []*broker.Delivery)}
		var refusals, fails atomic.Int64
		fails.Store(1)
		to := alone(func(context.Context, message.Command) (bool, error) {
			return false, carillon.Errorf(carillon.InvalidArgument, "x", "refused")
		})
		g := startGiven(t, to, 10, map[string]*given{"topic": source}, &refusing{fails: &fails, n: &refusals},
			func(Outcome) {})
		defer g.Close(t.Context())
		var mine atomic.Bool
		mine.Store(true)
		d := source.delete("refused", 1)
		d.Begin = mine.Load
		source.in <- []*broker.Delivery{d}
		<-time.After(time.Minute)
		synctest.Wait()
		if got := g.Status("n")[0].Readers[0].Retrying; got != "the broker says no" {
			t.Errorf("while it is tried again, %q is shown", got)
		}
		mine.Store(false)
		<-time.After(time.Minute)
		synctest.Wait()
		if got := g.Status("n")[0].Readers[0].Retrying; got != "" || refusals.Load() == 0 {
			t.Errorf("after %d refusals another node has it, and %q is shown", refusals.Load(), got)
		}
	})
}
