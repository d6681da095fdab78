package amqp

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

var several = flag.Bool("several-servers", false, "kill servers of a cluster, too, which takes longer")

// TestACluster of three nodes, with a quorum queue: the node that the publisher is connected to is killed, then
// that of the consumer. The others are used, nothing that was acknowledged is lost, and nothing is there that was
// said not to be sent.
func TestACluster(t *testing.T) {
	if !*several {
		t.Skip("only with -several-servers: a cluster takes seconds to form")
	}
	nodes := realserver.StartRabbitMQCluster(t, 3)
	o := Options{Username: "guest", Password: "guest", Heartbeat: time.Second}
	for _, n := range nodes {
		o.Addresses = append(o.Addresses, n.Address())
	}
	owner := &rig{RabbitMQ: nodes[2]}
	owner.begin(t)
	queue := owner.queue(t, amqp091.Table{"x-queue-type": "quorum", "x-quorum-initial-group-size": int32(3)})
	c, told := client(t, o), map[string]error{}
	until := func(what string) {
		t.Helper()
		for lot := 0; ; lot++ {
			ms := many("", queue, 30)
			for i := range ms {
				ms[i].ID = fmt.Sprintf("%s-%d-%d", what, lot, i)
				ms[i].Headers[0].Value = ms[i].ID
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			errs := start(ctx, t, c, ms).wait()
			cancel()
			for i, err := range errs {
				told[ms[i].ID] = err
			}
			if count(errs).acknowledged == len(errs) {
				return
			}
			if t.Context().Err() != nil {
				t.Fatalf("%s: nothing is acknowledged: %v", what, errs[0])
			}
		}
	}
	until("whole")
	first := c.first.Load()
	nodes[first].Crash(t)
	until("killed")
	if now := c.first.Load(); now == first {
		t.Errorf("the client is connected to node %d, which was killed", now)
	}
	nodes[first].Up(t)
	until("back")

	s, err := NewSource(o, broker.Subscription{Topic: queue, InFlight: 10})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	there := map[string]int{}
	take := func() {
		for _, id := range takeSome(t, s) {
			there[id]++
		}
	}
	take()
	at := s.client.first.Load()
	nodes[at].Crash(t)
	until("last")
	for id, err := range told {
		for err == nil && there[id] == 0 {
			take()
		}
	}
	if now := s.client.first.Load(); now == at {
		t.Errorf("the source is connected to node %d, which was killed", now)
	}
	compare(t, told, there)
}

// compare holds what was said of messages against what is there.
func compare(t *testing.T, told map[string]error, there map[string]int) {
	t.Helper()
	errs := make([]error, 0, len(told))
	twice := 0
	for id, err := range told {
		errs = append(errs, err)
		if there[id] > 1 {
			twice++ // it was received and not acknowledged when a node was killed
		}
		k := count([]error{err})
		switch {
		case k.acknowledged == 1 && there[id] == 0:
			t.Errorf("%s was acknowledged, and is not there", id)
		case k.unsent == 1 && there[id] != 0:
			t.Errorf("%s was not sent, and is there: %v", id, err)
		case k.refused == 1:
			t.Errorf("%s: %v", id, err)
		}
	}
	t.Logf("%+v, %d are there, %d came twice", count(errs), len(there), twice)
}
