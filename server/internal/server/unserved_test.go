package server_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/worker"
)

// TestUnservedQueuesAreTold once, when they have been so for as long as the namespace has set, and when it is over.
func TestUnservedQueuesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, err := server.Start(t.Context(), server.Config{Store: "memory:", Partitions: 4})
		if err != nil {
			t.Fatal(err)
		}
		defer closeNode(t, node)
		w := &rig{t: t, sched: node.Scheduler()}
		setHooks(t, w.sched)
		var got []carillon.Event
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- w.sched.Watch(ctx, carillon.WatchQuery{Types: []carillon.EventType{"queue"}},
				func(b carillon.EventBatch) error {
					got = append(got, b.Events...)
					return nil
				})
		}()
		begun := time.Now()
		w.put(carillon.Job{Name: "a"})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if len(got) != 1 || got[0].Type != carillon.EventQueueUnserved || got[0].Queue != queue ||
			got[0].QueueKind != "worker" || got[0].Namespace != "default" ||
			got[0].From.Before(begun) || got[0].From.After(begun.Add(time.Minute)) ||
			got[0].Time.Sub(got[0].From) < time.Minute {
			t.Fatalf("told %+v", got)
		}
		stop := w.work(w.sched, worker.Options{}, func(context.Context, carillon.Run, []byte) error { return nil })
		time.Sleep(time.Minute)
		stop()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if len(got) != 2 || got[1].Type != carillon.EventQueueServed || got[1].Queue != queue {
			t.Errorf("told %+v", got)
		}
		cancel()
		if err := await(t, ended); !errors.Is(err, context.Canceled) {
			t.Errorf("the watch ended with %v", err)
		}
	})
}
