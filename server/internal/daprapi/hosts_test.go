package daprapi

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

// said is a Cluster that says what the test says, and fails when told to.
type said struct {
	carillon.Cluster
	nodes chan []carillon.Node
	fail  chan error
}

func (c *said) WatchNodes(ctx context.Context, f func([]carillon.Node) error) error {
	for {
		select {
		case nodes := <-c.nodes:
			if err := f(nodes); err != nil {
				return err
			}
		case err := <-c.fail:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestHostsOfACluster: sidecars are told of every node that takes them, and of changes; what was said last
// holds while the cluster cannot be asked.
func TestHostsOfACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &said{nodes: make(chan []carillon.Node), fail: make(chan error)}
		hosts, stop := follow(c, slog.New(slog.DiscardHandler))
		expect := func(want ...string) (changed <-chan struct{}) {
			t.Helper()
			synctest.Wait()
			got, changed := hosts(t.Context())
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			return changed
		}
		changes := func(changed <-chan struct{}) bool {
			synctest.Wait()
			select {
			case <-changed:
				return true
			default:
				return false
			}
		}
		c.nodes <- []carillon.Node{{ID: "plain"}}
		first := expect()
		c.nodes <- []carillon.Node{{ID: "b", Sidecars: "b:1"}, {ID: "a", Sidecars: "a:1"}, {ID: "plain"}}
		second := expect("a:1", "b:1")
		if !changes(first) {
			t.Error("a change was not told")
		}
		c.nodes <- []carillon.Node{{ID: "a", Sidecars: "a:1", Draining: true}, {ID: "b", Sidecars: "b:1", Owns: 3}}
		if changes(second) {
			t.Error("what sidecars have no use for is told as a change")
		}
		c.fail <- errors.New("the store is gone")
		expect("a:1", "b:1")
		<-time.After(followAgain)
		c.nodes <- []carillon.Node{{ID: "a", Sidecars: "a:1"}}
		expect("a:1")
		if !changes(second) {
			t.Error("a node that has gone was not told")
		}
		c.fail <- errors.New("the store is gone")
		stop() // also while it waits
	})
}

// TestHostsBeforeAnythingIsKnown: who asks then is told as soon as something is.
func TestHostsBeforeAnythingIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &said{nodes: make(chan []carillon.Node), fail: make(chan error)}
		hosts, stop := follow(c, slog.New(slog.DiscardHandler))
		ask := func(ctx context.Context) (answer chan []string) {
			answer = make(chan []string, 1)
			go func() {
				addresses, _ := hosts(ctx)
				answer <- addresses
			}()
			synctest.Wait()
			if len(answer) > 0 {
				t.Fatal("an answer came at once")
			}
			return answer
		}
		first := ask(t.Context())
		short, cancel := context.WithCancel(t.Context())
		given := ask(short)
		cancel()
		<-given
		c.nodes <- []carillon.Node{{ID: "a", Sidecars: "a:1"}}
		if got := <-first; !slices.Equal(got, []string{"a:1"}) {
			t.Errorf("the first is told %v", got)
		}
		stop()
	})
}

// TestHostsThatNobodyKnows: a node whose cluster cannot be asked answers nevertheless.
func TestHostsThatNobodyKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &said{nodes: make(chan []carillon.Node), fail: make(chan error)}
		hosts, stop := follow(c, slog.New(slog.DiscardHandler))
		c.fail <- errors.New("the store is gone")
		if got, _ := hosts(t.Context()); len(got) != 0 {
			t.Errorf("told %v", got)
		}
		stop()
	})
}
