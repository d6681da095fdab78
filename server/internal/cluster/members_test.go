package cluster_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/store"
)

// TestNodeNameHasOneProcess: a second process is refused while the first answers, and takes its place if it
// does not. The first ends when it finds out.
func TestNodeNameHasOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoNodes(t)
		if _, err := f.try("a"); err == nil || !strings.Contains(err.Error(), "--node-name") {
			t.Fatalf("a second a: %v", err)
		}
		a.kill()
		again := f.start("a")
		f.settle(2*time.Second+cluster.DefaultTTL, again, b)
		before := again.engine.Holdings()
		a.isolated.Store(false)
		select {
		case <-a.Replaced():
		case <-time.After(5 * time.Second):
			t.Fatal("the first has not found out")
		}
		sleep(time.Second) // it hands over what it believed to own
		if a.Ready() == nil || len(a.engine.Holdings()) > 0 {
			t.Errorf("the first is ready: %v", a.Ready())
		}
		f.settle(time.Second, again, b)
		if now := again.engine.Holdings(); !slices.Equal(now, before) {
			t.Errorf("the second owned %v, and owns %v since the first has come back", before, now)
		}
	})
}

// TestReplacedBeforeItHasAShare: a node whose name is taken before it was given a share ends as well.
func TestReplacedBeforeItHasAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		calls := 0
		f.onMembers = func() {
			if calls++; calls < 3 {
				return // the read that checks its settings, before and after it joins
			}
			f.onMembers = nil
			l := f.store.Leaser()
			if err := errors.Join(l.Leave(t.Context(), "a", 1),
				l.Join(t.Context(), store.Member{ID: "a", Nonce: 77}, time.Hour)); err != nil {
				t.Error(err)
			}
		}
		a := f.start("a")
		select {
		case <-a.Replaced():
		case <-time.After(5 * time.Second):
			t.Error("it goes on")
		}
	})
}
