package partition_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

func TestNothingIsKeptOfAQueueThatIsEmpty(t *testing.T) {
	r := newRig(t, partition.Config{})
	for i := range 30 {
		q := fmt.Sprintf("q%d", i)
		r.mustPut(carillon.Job{Name: q, Target: carillon.WorkerQueue(q)})
		r.advance(2 * time.Second)
		r.m.Window.Stage(queueNamed(q), r.now, 10)
		r.flush()
		r.m.Window.AppendWaiting(nil, r.now)
		ds := r.deliverFrom(queueNamed(q), 1)
		if len(ds) != 1 {
			t.Fatalf("%d delivered", len(ds))
		}
		r.m.Window.AppendWaiting(nil, r.now)
		r.succeed(ds[0])
		r.flush()
		r.m.Window.AppendWaiting(nil, r.now)
	}
	if s := r.m.Stats(); s != (partition.Stats{}) {
		t.Fatalf("left in memory: %+v", s)
	}
	if small, err := r.shard.MetaRecords(context.Background(),
		store.MetaQuery{Kind: store.KindParked, Limit: 100}); err != nil || len(small) > 0 {
		t.Fatalf("left in the store: %v %v", small, err)
	}
}
