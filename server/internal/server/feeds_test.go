package server_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/server"
)

// TestAFeedIsToldWhatWasDone, also by a node that refuses the same today, before its partition is asked.
func TestAFeedIsToldWhatWasDone(t *testing.T) {
	store := "pebble:" + filepath.Join(t.TempDir(), "store")
	data := carillon.Bytes(make([]byte, 2000), "")
	key := carillon.Key{Namespace: "default", Name: "a"}
	put := message.Command{Key: key, KeepFor: time.Hour, Job: &carillon.Job{Due: carillon.In(1000 * time.Hour),
		Target: carillon.WorkerQueue("q"), Data: data}}
	trigger := message.Command{Key: key, KeepFor: time.Hour, Trigger: &carillon.TriggerOptions{Data: &data}}
	live := func(limits carillon.Bounds, f func(to server.Intake)) {
		told := false
		_, stop := serveUntil(t, server.Config{Store: store, Limits: limits, Extensions: server.Extensions{
			Feeds: []server.Feed{func(to server.Intake) func(context.Context) {
				told = true
				f(to)
				return func(context.Context) {}
			}}}})
		if stop(); !told {
			t.Fatal("the feed did not begin")
		}
	}
	do := func(to server.Intake, request string, c message.Command) (bool, error) {
		c.Request = request
		return to.Do(t.Context(), c)
	}
	live(carillon.DefaultBounds(), func(to server.Intake) {
		if before, err := do(to, "put", put); before || err != nil {
			t.Fatalf("put: %v, %v", before, err)
		}
		if before, err := do(to, "trigger", trigger); before || err != nil {
			t.Fatalf("trigger: %v, %v", before, err)
		}
	})
	small := carillon.DefaultBounds()
	small.Payload = 1000
	live(small, func(to server.Intake) {
		for request, c := range map[string]message.Command{"put": put, "trigger": trigger} {
			if before, err := do(to, request, c); !before || err != nil {
				t.Errorf("%s comes again: done before %v, %v", request, before, err)
			}
			if before, err := do(to, "another "+request, c); before || !errors.Is(err, carillon.InvalidArgument) {
				t.Errorf("another %s: done before %v, %v", request, before, err)
			}
		}
	})
}
