package kafka_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/kafka"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

var several = flag.Bool("several-servers", false, "kill servers of a cluster, too, which takes longer")

// ledger is what became of messages.
type ledger map[string]error

// publish publishes 30 messages, to all partitions, which have 5 s.
func (l ledger) publish(t *testing.T, c *kafka.Client) (errs []error) {
	t.Helper()
	ms := messages("runs", fmt.Sprintf("lot-%04d", len(l)), 30)
	for i := range ms {
		ms[i].To.Kafka.Key = ms[i].ID
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	errs = start(ctx, t, c, ms).wait()
	for i, err := range errs {
		l[ms[i].ID] = err
	}
	return errs
}

// until publishes until everything is acknowledged.
func (l ledger) until(t *testing.T, c *kafka.Client, what string) {
	t.Helper()
	for t.Context().Err() == nil {
		if errors.Join(l.publish(t, c)...) == nil {
			return
		}
	}
	t.Fatal("nothing is acknowledged: " + what)
}

// TestACluster of three brokers, two of which must have a record: a leader is killed, and another becomes one;
// then two are killed, and nothing is taken; when they are back everything goes on.
func TestACluster(t *testing.T) {
	if !*several {
		t.Skip("only with -several-servers: three brokers take long to start")
	}
	brokers := realserver.StartKafkaCluster(t, 3)
	var addresses []string
	for _, k := range brokers {
		addresses = append(addresses, k.Address())
	}
	brokers[0].Topic(t, "runs", 6, "min.insync.replicas=2")
	c, l := client(t, kafka.Options{Addresses: addresses}), ledger{}
	l.until(t, c, "begin")
	brokers[2].Crash(t) // the leader of two partitions
	l.until(t, c, "a leader is away")
	brokers[1].Crash(t)
	for first := true; t.Context().Err() == nil; first = false {
		errs, unsent := l.publish(t, c), 0
		for _, err := range errs {
			switch {
			case err == nil:
				t.Error("one of three has acknowledged")
			case errors.Is(err, broker.ErrUnsent):
				unsent++
			}
		}
		if unsent == len(errs) {
			break
		}
		if !first { // what the last one took before it knew that it is alone may be there, and nothing else
			t.Errorf("%d of %d are unsent: %v", unsent, len(errs), errors.Join(errs...))
		}
	}
	brokers[1].Up(t)
	l.until(t, c, "two are there")
	brokers[2].Up(t)
	l.until(t, c, "all are there")
	have, acknowledged, unsent := map[string]int{}, 0, 0
	for _, r := range contents(t, brokers[0].Address(), "runs") {
		have[id(t, r)]++
	}
	for run, err := range l {
		switch n := have[run]; {
		case n > 1:
			t.Errorf("%s is there %d times", run, n)
		case err == nil && n == 0:
			t.Errorf("%s was acknowledged, and is not there", run)
		case errors.Is(err, broker.ErrRefused):
			t.Errorf("%s: %v", run, err)
		case errors.Is(err, broker.ErrUnsent) && n > 0:
			t.Errorf("%s was not sent, and is there: %v", run, err)
		case err == nil:
			acknowledged++
		case errors.Is(err, broker.ErrUnsent):
			unsent++
		}
	}
	t.Logf("%d messages, %d acknowledged, %d unsent, %d are there", len(l), acknowledged, unsent, len(have))
}
