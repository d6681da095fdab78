package multisession

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/reconnect"
)

// TestDialerRetriesUntilItConnects: with a growing pause, one attempt for each address.
func TestDialerRetriesUntilItConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		var got []*dial
		d := newDialer(t.Context(), func(context.Context, string) (carillon.Session, error) {
			if tries.Add(1) < 5 {
				return nil, errors.New("nobody is there")
			}
			return nil, nil
		}, func(l *dial, _ carillon.Session) { got = append(got, l) })
		d.start("a")
		d.start("a")
		<-time.After(5 * reconnect.First / 2) // two of the pauses, at most
		synctest.Wait()
		if n := tries.Load(); n < 2 || n > 4 {
			t.Errorf("%d tries", n)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if tries.Load() != 5 || len(got) != 1 || got[0].address != "a" {
			t.Fatalf("%d tries, %d connected", tries.Load(), len(got))
		}
		if !d.finish(got[0]) || d.finish(got[0]) {
			t.Error("it is not wanted once")
		}
	})
}

// TestDialerStopsWhatNobodyWants: an attempt whose node is in no list any more, and all at the end.
func TestDialerStopsWhatNobodyWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tried := map[string]*atomic.Int32{"a": {}, "b": {}}
		d := newDialer(t.Context(), func(_ context.Context, address string) (carillon.Session, error) {
			tried[address].Add(1)
			return nil, errors.New("nobody is there")
		}, nil)
		for _, step := range []struct {
			do             func()
			keepsA, keepsB bool
		}{
			{func() { d.start("a") }, true, false},
			{func() { d.keep(map[string]bool{"b": true}); d.start("b") }, false, true},
			{d.stop, false, false},
		} {
			step.do()
			synctest.Wait()
			tried["a"].Store(0)
			tried["b"].Store(0)
			<-time.After(time.Minute)
			synctest.Wait()
			if a, b := tried["a"].Load(), tried["b"].Load(); (a > 0) != step.keepsA || (b > 0) != step.keepsB {
				t.Errorf("tried a %d times, b %d times", a, b)
			}
		}
	})
}

// TestDialerBackoff: a node whose sessions end soon waits longer each time; after one that has lasted it is
// connected soon again.
func TestDialerBackoff(t *testing.T) {
	d := newDialer(t.Context(), nil, nil)
	for _, step := range []struct{ lasted, wait time.Duration }{
		{0, reconnect.First}, {0, 2 * reconnect.First}, {reconnect.Last,
			4 * reconnect.First}, {reconnect.Last + 1, reconnect.First},
	} {
		if d.lost("a", step.lasted); time.Duration(d.backoffs["a"]) != step.wait {
			t.Errorf("after %v: %v, want %v", step.lasted, time.Duration(d.backoffs["a"]), step.wait)
		}
	}
	for range 20 {
		d.lost("a", 0)
	}
	if time.Duration(d.backoffs["a"]) != reconnect.Last {
		t.Errorf("at last %v", time.Duration(d.backoffs["a"]))
	}
}
