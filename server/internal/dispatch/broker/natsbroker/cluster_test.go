package natsbroker

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

var several = flag.Bool("several-servers", false, "kill servers of a cluster, too, which takes longer")

// ledger is what became of messages.
type ledger struct {
	errs  map[string]error
	count struct{ acknowledged, unsent, doubtful int }
}

// publish publishes 20 messages, which have some time.
func (l *ledger) publish(t *testing.T, c *Client, lot string, within time.Duration) (acknowledged bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var ms []broker.Message
	for i := range 20 {
		ms = append(ms, message(fmt.Sprint(lot, ".", i), "runs.a", 10))
	}
	var all sync.WaitGroup
	all.Add(len(ms))
	errs := make([]error, len(ms))
	c.Publish(ctx, ms, func(i int, err error) {
		errs[i] = err
		all.Done()
	})
	all.Wait()
	acknowledged = true
	for i, err := range errs {
		l.errs[ms[i].ID] = err
		switch {
		case err == nil:
			l.count.acknowledged++
			continue
		case errors.Is(err, broker.ErrUnsent):
			l.count.unsent++
		default:
			l.count.doubtful++
		}
		acknowledged = false
	}
	return acknowledged
}

// check compares the ledger with what is there.
func (l *ledger) check(t *testing.T, there []string) {
	t.Helper()
	have := map[string]bool{}
	for _, id := range there {
		if have[id] {
			t.Errorf("%s is there twice", id)
		}
		have[id] = true
	}
	for id, err := range l.errs {
		switch {
		case err == nil && !have[id]:
			t.Errorf("%s was acknowledged, and is not there", id)
		case errors.Is(err, broker.ErrRefused):
			t.Errorf("%s: %v", id, err)
		case errors.Is(err, broker.ErrUnsent) && have[id]:
			t.Errorf("%s was not sent, and is there", id)
		}
	}
	t.Logf("%+v, %d are there", l.count, len(there))
}

// TestACluster of three servers, with a stream that all of them have: its leader is killed, then two of three,
// so that nothing can be acknowledged. When they are back all goes on.
func TestACluster(t *testing.T) {
	if !*several {
		t.Skip("only with -several-servers: a cluster takes seconds to elect leaders")
	}
	servers := realserver.StartNATSCluster(t, 3)
	var addresses, urls []string
	for _, s := range servers {
		addresses, urls = append(addresses, s.Address()), append(urls, "nats://"+s.Address())
	}
	nc, err := nats.Connect(urls[0], nats.MaxReconnects(-1), func(o *nats.Options) error {
		o.Servers = urls
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "RUNS", Subjects: []string{"runs.>"},
		Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	info, err := runs.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leader := slices.IndexFunc(servers, func(s *realserver.NATS) bool {
		return fmt.Sprint("n", s.Port) == info.Cluster.Leader
	})
	c := newClient(t, Options{Addresses: addresses})
	l := &ledger{errs: map[string]error{}}
	until := func(what string) {
		for i := 0; !l.publish(t, c, fmt.Sprint(what, i), patience/10); i++ {
			if t.Context().Err() != nil {
				t.Fatalf("%s: nothing is acknowledged: %+v", what, l.count)
			}
		}
	}
	until("begin")
	if len(l.errs) > 20 {
		t.Errorf("a cluster that is whole: %+v", l.count)
	}
	servers[leader].Crash(t)
	until("leader")
	servers[leader].Up(t)
	until("whole")
	for i := range 2 {
		servers[(leader+i)%3].Crash(t)
	}
	if l.publish(t, c, "alone", time.Second) {
		t.Error("one of three has acknowledged")
	}
	for i := range 5 {
		l.publish(t, c, fmt.Sprint("still alone", i), time.Second)
	}
	for i := range 2 {
		servers[(leader+i)%3].Restart(t)
	}
	until("back")
	l.check(t, stored(t, runs))
}
