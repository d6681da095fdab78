package ingest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
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
