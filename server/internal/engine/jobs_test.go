package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestDeletesAreDurableBeforeTheirAnswers: some of the deleted jobs end meanwhile.
func TestDeletesAreDurableBeforeTheirAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, f)
		for _, name := range []string{"p/a", "p/b"} {
			if _, err := n.PutJob(ctx, carillon.Job{Name: name, Due: carillon.In(time.Hour),
				Target: carillon.WorkerQueue("q")}); err != nil {
				t.Fatal(err)
			}
		}
		f.fail(func(apply func() error) error { time.Sleep(time.Second); return apply() })
		go func() { _, _ = n.DeleteJob(ctx, carillon.Key{Namespace: "default", Name: "p/b"}) }()
		synctest.Wait()
		began := time.Now()
		if _, err := n.DeleteJobs(ctx, "default", "p/"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 2*time.Second {
			t.Fatalf("acknowledged after %v, its batch takes until 2 s", took)
		}
		n.stop()
	})
}
