package server_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/worker"
)

// TestQueuesOfThreeNodes: what waits at one node and who is connected to another are in the same row, whichever
// node is asked.
func TestQueuesOfThreeNodes(t *testing.T) {
	x := startTrio(t, server.Config{}, 3)
	var jobs []carillon.Job
	for i := range 40 { // of all partitions
		jobs = append(jobs, carillon.Job{Name: fmt.Sprint("mail/", i), Target: carillon.WorkerQueue(queue)},
			carillon.Job{Name: fmt.Sprint("none/", i), Target: carillon.WorkerQueue("none")})
	}
	if _, err := x.clients[0].PutJobs(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	hold := make(chan struct{})
	began := make(chan struct{}, len(jobs))
	w := &rig{t: t}
	stop := w.work(x.clients[1], worker.Options{Concurrency: 10, ID: "one", Labels: map[string]string{"zone": "a"}},
		func(context.Context, carillon.Run, []byte) error {
			began <- struct{}{}
			<-hold
			return nil
		})
	t.Cleanup(stop)
	t.Cleanup(func() { close(hold) })
	for range 10 {
		await(t, began)
	}
	said := ""
	t.Cleanup(func() {
		if said != "" {
			t.Log("last: ", said)
		}
	})
	for i, c := range x.clients {
		eventually(t, "the lists are right", func() bool {
			said = wrong(t, c, i)
			return said == ""
		})
	}
}

// wrong says what is wrong about the lists of a node; "" is nothing.
func wrong(t *testing.T, c *client.Client, asked int) string {
	page, err := c.ListQueues(t.Context(), carillon.QueueQuery{Namespace: carillon.DefaultNamespace})
	if err != nil || len(page.Queues) != 2 || page.Unheard != nil {
		return fmt.Sprintf("node %d: %+v, %v", asked, page, err)
	}
	none, mail := page.Queues[0], page.Queues[1]
	if mail.Name != queue || mail.Waiting() != 30 || mail.InFlight != 10 || mail.Consumers != 3 || mail.Unserved ||
		mail.Oldest.IsZero() {
		return fmt.Sprintf("node %d: %+v", asked, mail)
	}
	if none.Name != "none" || none.Waiting() != 40 || none.Consumers != 0 || !none.Unserved {
		return fmt.Sprintf("node %d: %+v", asked, none)
	}
	workers, err := c.ListWorkers(t.Context(), carillon.WorkerQuery{Queue: queue})
	if err != nil || len(workers.Workers) != 3 { // a connection to each node
		return fmt.Sprintf("node %d: %+v, %v", asked, workers, err)
	}
	sum := 0
	for i, w := range workers.Workers {
		sum += w.InFlight
		if w.ID != "one" || w.Node != string(rune('a'+i)) || w.Labels["zone"] != "a" ||
			!slices.Equal(w.Queues, []string{queue}) || w.Since.IsZero() {
			return fmt.Sprintf("node %d: %+v", asked, w)
		}
	}
	if sum != 10 {
		return fmt.Sprintf("node %d: %d in flight", asked, sum)
	}
	return ""
}
