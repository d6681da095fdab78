package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/worker"
)

// TestRedisIsRestartedUnderLoad kills Redis under a node that is being worked, and starts it again. The node
// says that it is in trouble, goes on by itself, and has what it acknowledged, then and in its next life.
func TestRedisIsRestartedUnderLoad(t *testing.T) {
	redis := realserver.StartRedis(t)
	config := server.Config{Store: "redis://" + redis.Address(), Name: "node", Partitions: 4}
	s, stop := serveUntil(t, config)
	w := &rig{t: t, sched: dial(t, s)}
	ran := make(chan string, 1000)
	stopWork := w.work(dial(t, s), worker.Options{}, func(_ context.Context, run carillon.Run, _ []byte) error {
		ran <- run.Job
		return nil
	})

	load := w.load(20)
	redis.Crash(t)
	eventually(t, "the node says that it is in trouble", func() bool { return s.Ready() != nil })
	redis.Up(t)
	eventually(t, "the node is ready again", func() bool { return s.Ready() == nil })
	acked := load()
	w.hasJobs(acked)
	// a partition that had nothing to write learns now that it is to claim again
	eventually(t, "a job is put", func() bool {
		_, err := w.sched.PutJob(t.Context(), carillon.Job{Name: "after", Target: carillon.WorkerQueue(queue)})
		return err == nil
	})
	for await(t, ran) != "after" {
		continue
	}
	stopWork()
	stop()

	again, stopAgain := serveUntil(t, config)
	w.sched = dial(t, again)
	w.hasJobs(acked)
	stopAgain()
}

// load puts jobs for later, and some for now, until it is told to end, which gives the names of those for
// later that were acknowledged. It returns when so many have been.
func (w *rig) load(n int) (end func() []string) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var acked []string
	begun := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			later := carillon.Job{Name: fmt.Sprint("later/", i), Due: carillon.In(time.Hour),
				Target: carillon.WorkerQueue(queue)}
			if _, err := w.sched.PutJob(ctx, later); err == nil {
				if acked = append(acked, later.Name); len(acked) == n {
					close(begun)
				}
			}
			if i%8 == 0 && i < 800 {
				// or not
				_, _ = w.sched.PutJob(ctx, carillon.Job{Name: fmt.Sprint("now/", i), Target: carillon.WorkerQueue(queue)})
			}
		}
	})
	<-begun
	return func() []string {
		cancel()
		wg.Wait()
		return acked
	}
}
