package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/store/memory"
)

// TestSettingsThatCouldNotBeRead: they are read as soon as the store answers. A node that was cut off from
// the store when they were announced does not apply the old ones for as long as after a lost announcement.
func TestSettingsThatCouldNotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memory.New(memory.Options{Partitions: 8})
		var f *fleet
		cut := &line{Store: s}
		f = startFleet(t, s, 2, func(i int, c *engine.Config) {
			if i == 1 {
				c.Store = cut
			}
			c.Announce = func(ns string) { go func() { _ = f.nodes[1].ReloadNamespace(ctx, ns) }() }
		})
		f.deal(func(int) int { return 0 })
		f.settled()
		put := func() error {
			_, err := f.nodes[1].PutJob(ctx, carillon.Job{Namespace: "ns", Name: "a", Schedule: "@every 2s", Target: carillon.WorkerQueue("q"),
				FailurePolicy: retries()})
			return err
		}
		cut.set(failing(false, "small"))
		if _, err := f.nodes[0].PutNamespace(ctx, carillon.Namespace{Name: "ns", Strict: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if err := put(); errors.Is(err, carillon.InvalidArgument) {
			t.Fatal(fmt.Errorf("it knows what it could not read: %w", err))
		}
		cut.set(nil)
		time.Sleep(600 * time.Millisecond)
		if err := put(); !errors.Is(err, carillon.InvalidArgument) {
			t.Errorf("it goes by the settings before: %v", err)
		}
		f.stop()
	})
}
