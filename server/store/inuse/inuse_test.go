package inuse_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/inuse"
)

// TestCloseWaitsForCalls, ends once, and refuses those that come later.
func TestCloseWaitsForCalls(t *testing.T) {
	for range 100 {
		var g inuse.Guard
		g.Open(3)
		done, err := g.Begin(t.Context(), 0, 2)
		if err != nil {
			t.Fatal(err)
		}
		var underWay atomic.Bool
		underWay.Store(true)
		ends, closed := 0, make(chan error, 1)
		go func() {
			closed <- g.Close(func() error {
				ends++
				if underWay.Load() {
					t.Error("it ends while a call is under way")
				}
				return errors.ErrUnsupported
			})
		}()
		runtime.Gosched()
		underWay.Store(false)
		done()
		if err := <-closed; !errors.Is(err, errors.ErrUnsupported) || ends != 1 {
			t.Errorf("ended %d times: %v", ends, err)
		}
		if _, err := g.Begin(t.Context()); !errors.Is(err, store.ErrClosed) {
			t.Errorf("a call after it: %v", err)
		}
		if err := g.Close(func() error { ends++; return nil }); err != nil || ends != 1 {
			t.Errorf("a second Close: %v, ended %d times", err, ends)
		}
	}
}

// TestCallsAreRefused that are about partitions that are not there, or whose context has ended.
func TestCallsAreRefused(t *testing.T) {
	var g inuse.Guard
	g.Open(3)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := g.Begin(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	for _, p := range []int{-1, 3} {
		if _, err := g.Begin(t.Context(), 1, p); err == nil {
			t.Errorf("partition %d of 3 is taken", p)
		}
	}
}

// TestATurn is had by one at a time, and whoever waits for it can be sent away.
func TestATurn(t *testing.T) {
	turn, over := inuse.NewTurn(), make(chan struct{})
	if err := turn.Take(t.Context(), over); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := turn.Take(ended, over); !errors.Is(err, context.Canceled) {
		t.Errorf("a second one whose context has ended: %v", err)
	}
	waits := make(chan error)
	go func() { waits <- turn.Take(t.Context(), over) }()
	close(over)
	if err := <-waits; !errors.Is(err, store.ErrClosed) {
		t.Errorf("a second one at the end: %v", err)
	}
	go turn.Give()
	if err := turn.Take(t.Context(), nil); err != nil {
		t.Errorf("given back by another goroutine: %v", err)
	}
}
