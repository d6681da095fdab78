package ingest_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

var throughput = flag.Int("ingest-messages", 0, "how many messages TestThroughput takes; 0: it is left out")

// TestThroughput takes many puts from each kind of broker, each of another job, on a node with a store in
// memory; and beside it what a source takes that does nothing but acknowledge.
func TestThroughput(t *testing.T) {
	if *throughput == 0 {
		t.Skip("give -ingest-messages")
	}
	for name, start := range map[string]func(testing.TB) *kind{"kafka": startKafka, "redis": startRedis,
		"rabbitmq": startRabbitMQ, "nats": startNATS} {
		t.Run(name, func(t *testing.T) { throughputOf(t, start(t)) })
	}
}

func throughputOf(t *testing.T, k *kind) {
	to := k.topic(t, "many")
	ms := make([]broker.Message, *throughput)
	for i := range ms {
		ms[i] = event(to, fmt.Sprint(i), ingest.JobCreate, fmt.Sprint("j", i), later)
	}
	for len(ms) > 0 {
		n := min(1000, len(ms))
		k.send(t, ms[:n]...)
		ms = ms[n:]
	}
	group := k.group
	if k.settings.Kind != "amqp" { // whose queue is empty once it was read
		began := time.Now()
		readAll(t, k, "many", *throughput)
		t.Logf("the source alone: %.0f messages/s", float64(*throughput)/time.Since(began).Seconds())
	}
	n := start(t)
	c := ingest.Config{Name: "test", Broker: "b", Settings: k.settings, Topics: []string{"many"}, Group: group,
		Namespace: "shop", DeadLetter: k.topic(t, "many-dead"), InFlight: 1024, Remember: time.Hour}
	x := &counts{of: map[ingest.Outcome]int{}}
	began := time.Now()
	g, err := ingest.Start(c, ingest.Options{Do: n.to.Do,
		Sources: map[string]broker.NewSource{k.settings.Kind: k.source},
		Clients: map[string]broker.New{k.settings.Kind: k.client}, Log: slog.New(slog.DiscardHandler),
		Count: func(_, _ string, o ingest.Outcome) { x.add(o) }})
	if err != nil {
		t.Fatal(err)
	}
	realserver.Eventually(t, func() error {
		if got := x.get(ingest.Done); got < *throughput {
			return fmt.Errorf("%d are done after a minute", got)
		}
		return nil
	})
	t.Logf("the ingest: %.0f messages/s", float64(*throughput)/time.Since(began).Seconds())
	g.Close(context.Background())
}
