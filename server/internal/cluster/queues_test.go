package cluster_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/queues"
)

// knows is what a node knows: one run waits in a queue that all know, and it has one worker.
type knows struct{ node string }

func (k knows) OwnQueues(_ context.Context, q queues.Query) ([]carillon.Queue, error) {
	return q.Queues([]carillon.Queue{{Namespace: "default", Kind: "worker", Name: "q", Ready: 1}}), nil
}

func (k knows) OwnWorkers(_ context.Context, q queues.Query) ([]queues.Connection, error) {
	return q.Workers([]queues.Connection{{Worker: carillon.Worker{Namespace: "default", Kind: "worker", ID: "w",
		Node: k.node}, Nth: 1}}), nil
}

func (k knows) OwnIngests(_ context.Context, q queues.Query) ([]carillon.Ingest, error) {
	return q.Ingests([]carillon.Ingest{{Namespace: "default", Name: "i", Kind: "kafka", Topic: "t", Readers: []carillon.IngestReader{{
		Node: k.node, IngestState: carillon.IngestState{Lag: 2, LagKnown: true}}}}}), nil
}

// TestListsAreOfAllNodes: whichever is asked. One that lives and cannot be reached is named.
func TestListsAreOfAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoNodes(t)
		c := f.start("c")
		f.settle(2*time.Second, a, b, c)
		for _, asked := range []*node{a, b, c} {
			page, err := asked.ListQueues(t.Context(), carillon.QueueQuery{})
			if err != nil || len(page.Queues) != 1 || page.Queues[0].Ready != 3 || page.Unheard != nil {
				t.Errorf("%s says %+v, %v", asked.id, page, err)
			}
			workers, err := asked.ListWorkers(t.Context(), carillon.WorkerQuery{})
			if err != nil || len(workers.Workers) != 3 || workers.Unheard != nil {
				t.Errorf("%s says %+v, %v", asked.id, workers, err)
			}
			taken, err := asked.ListIngests(t.Context(), carillon.IngestQuery{})
			if err != nil || len(taken.Ingests) != 1 || len(taken.Ingests[0].Readers) != 3 || taken.Ingests[0].Lag != 6 ||
				taken.Unheard != nil {
				t.Errorf("%s says %+v, %v", asked.id, taken, err)
			}
		}
		name := delivery.Queue{Namespace: "default", Kind: "worker", Address: "q"}
		if row, unheard := a.ConsumersElsewhere(t.Context(), name); row.Ready != 2 || unheard != nil {
			t.Errorf("elsewhere than at a: %+v, %v", row, unheard)
		}
		if row, _ := a.ConsumersElsewhere(t.Context(), delivery.Queue{Address: "r"}); row != (carillon.Queue{}) {
			t.Errorf("another queue: %+v", row)
		}
		c.kill()
		synctest.Wait()
		if row, unheard := a.ConsumersElsewhere(t.Context(), name); row.Ready != 1 || !slices.Equal(unheard, []string{"c"}) {
			t.Errorf("elsewhere than at a, without c: %+v, %v", row, unheard)
		}
		page, err := a.ListQueues(t.Context(), carillon.QueueQuery{})
		if err != nil || len(page.Queues) != 1 || page.Queues[0].Ready != 2 || !slices.Equal(page.Unheard, []string{"c"}) {
			t.Errorf("without c: %+v, %v", page, err)
		}
		taken, err := a.ListIngests(t.Context(), carillon.IngestQuery{})
		if err != nil || len(taken.Ingests) != 1 || taken.Ingests[0].Lag != 4 || !slices.Equal(taken.Unheard, []string{"c"}) {
			t.Errorf("without c: %+v, %v", taken, err)
		}
	})
}
