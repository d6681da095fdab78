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
