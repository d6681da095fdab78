package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/sidecar"
	"github.com/carillonhq/carillon/server/store/memory"
)

// sidecarOf opens a session of the app x at a node. What it receives is named by its data.
func sidecarOf(t *testing.T, n *node) (s *sidecar.Session, got chan string) {
	t.Helper()
	s, err := sidecar.Open(n.hub, n, sidecar.Hello{Namespace: "default", AppID: "x", Jobs: true},
		sidecar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got = make(chan string, 100)
	go func() {
		for {
			ds, err := s.Receive(context.Background())
			if err != nil {
				return
			}
			for i := range ds {
				got <- string(ds[i].Run.Data.Bytes)
				if err := s.Result(ds[i].ID, true, ""); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	return s, got
}

// TestAHeldStreamOutlivesNoReplacement: a run is due while its stream is held, the partition moves, and the
// job is replaced at the new owner, which knows nothing of the stream. The stream that goes on does not get
// what was replaced.
func TestAHeldStreamOutlivesNoReplacement(t *testing.T) {
	const jobs = 10
	for name, all := range map[string]bool{"the one at the first owner": false, "all": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				f := startFleet(t, memory.New(memory.Options{Partitions: 1}), 2, nil)
				f.deal(func(int) int { return 0 })
				f.settled()
				held, atHeld := sidecarOf(t, f.nodes[0])
				other, atOther := sidecarOf(t, f.nodes[1])
				for i := range jobs {
					job := daprJob(fmt.Sprint(i))
					job.Data = carillon.Bytes([]byte("old"), "")
					if _, err := f.nodes[0].PutJob(ctx, job); err != nil {
						t.Fatal(err)
					}
				}
				held.Hold()
				if all {
					other.Hold()
				}
				time.Sleep(3 * time.Second) // they are due, and old enough to be durable
				f.moves(1)
				for i := range jobs {
					job := daprJob(fmt.Sprint(i))
					job.Data = carillon.Bytes([]byte("new"), "")
					if _, err := f.nodes[1].PutJob(ctx, job, carillon.Replace()); err != nil {
						t.Fatal(err)
					}
				}
				for len(atOther) > 0 { // what went there before it was replaced
					<-atOther
				}
				held.Resume()
				other.Resume()
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if n := len(atHeld); n != 0 {
					t.Errorf("%d runs came to the stream that was held, such as of %s", n, <-atHeld)
				}
				if n := len(atOther); n != jobs {
					t.Errorf("%d runs came of %d", n, jobs)
				}
				for len(atOther) > 0 {
					if got := <-atOther; got != "new" {
						t.Errorf("%s came after it was replaced", got)
					}
				}
				for _, n := range f.nodes {
					n.stop()
				}
			})
		})
	}
}
