package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/link"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	_ "github.com/carillonhq/carillon/server/store/memory"
)

// kind is a real broker of a kind, as the tests need it.
type kind struct {
	settings broker.Settings
	group    string
	client   broker.New
	source   broker.NewSource
	// topic makes a topic, and returns a target that leads there.
	topic func(t testing.TB, name string) carillon.Target
	// read returns the messages of a topic from its beginning.
	read func(t testing.TB, name string, n int) []*broker.Delivery
	// crash ends the broker at once, and up starts it again.
	crash, up func(t testing.TB)
	// linked leads to a broker that tells clients where it is. nil: any link does.
	linked *link.Link
	// stranger is a source for a user who may not read until allow is called.
	stranger broker.NewSource
	allow    func(t testing.TB, topic string)
}

// node is a node that takes commands.
type node struct {
	*server.Node

	to server.Intake
}

func start(t testing.TB, targets ...server.Targets) *node {
	t.Helper()
	n := &node{}
	config := server.Config{Store: "memory:", Partitions: 8, DrainGrace: -1,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Extensions: server.Extensions{Feeds: []server.Feed{func(to server.Intake) func(context.Context) {
			n.to = to
			return func(context.Context) {}
		}}}}
	if len(targets) > 0 {
		config.Targets = targets[0]
	}
	var err error
	n.Node, err = server.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return n
}

// counts are messages by outcome.
type counts struct {
	mu sync.Mutex
	of map[ingest.Outcome]int
}

func (c *counts) add(o ingest.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[o]++
}

func (c *counts) get(o ingest.Outcome) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[o]
}

// doer has commands done, each alone.
type doer func(ctx context.Context, c message.Command) (bool, error)

func (d doer) Do(ctx context.Context, c message.Command) (bool, error) { return d(ctx, c) }

func (d doer) DoAll(ctx context.Context, _ int, all []message.Command) ([]message.Decision, error) {
	decided := make([]message.Decision, len(all))
	for i, c := range all {
		switch before, err := d(ctx, c); {
		case err != nil:
		case before:
			decided[i] = message.Repeated
		default:
			decided[i] = message.Done
		}
	}
	return decided, nil
}

func (d doer) PartitionOf(k carillon.Key) int { return store.PartitionOf(k, 8) }

// taking is an ingest that runs.
type taking struct {
	*ingest.Ingest
	*counts

	end func()
}

// take starts an ingest of topics; its dead letters go to the topic "dead".
func (k *kind) take(t testing.TB, to ingest.Doer, topics ...string) *taking {
	t.Helper()
	c := ingest.Config{Name: "test", Broker: "b", Settings: k.settings, Topics: topics, Group: k.group,
		Namespace: "shop", DeadLetter: k.topic(t, dead(topics[0])), InFlight: 64, Remember: time.Hour}
	n := &counts{of: map[ingest.Outcome]int{}}
	g, err := ingest.Start(c, ingest.Options{To: to, Sources: map[string]broker.NewSource{k.settings.Kind: k.source},
		Clients: map[string]broker.New{k.settings.Kind: k.client},
		Log:     slog.New(slog.NewTextHandler(t.Output(), nil)),
		Count:   func(_, _ string, o ingest.Outcome) { n.add(o) }})
	if err != nil {
		t.Fatal(err)
	}
	x := &taking{Ingest: g, counts: n, end: sync.OnceFunc(func() { g.Close(context.Background()) })}
	t.Cleanup(x.end)
	return x
}

func dead(topic string) string { return topic + "-dead" }

// send publishes messages, and waits until the broker has them.
func (k *kind) send(t testing.TB, ms ...broker.Message) {
	t.Helper()
	c, err := k.client(k.settings)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, len(ms))
	c.Publish(t.Context(), ms, func(_ int, err error) { sent <- err })
	for range ms {
		err = errors.Join(err, <-sent)
	}
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
}

// event is a message that is an event in binary mode.
func event(to carillon.Target, id, typ, subject, data string, more ...string) broker.Message {
	if to.Kafka != nil {
		k := *to.Kafka
		k.Key = subject
		to.Kafka = &k
	}
	m := broker.Message{To: to, ID: fmt.Sprint(id, typ, time.Now().UnixNano()), Data: []byte(data),
		Headers: []broker.Header{
			{Name: "ce-specversion", Value: "1.0"}, {Name: "ce-id", Value: id}, {Name: "ce-source", Value: "/test"},
			{Name: "ce-type", Value: typ}, {Name: "ce-subject", Value: subject}}}
	if data != "" {
		m.ContentType = "application/json"
	}
	for i := 0; i < len(more); i += 2 {
		m.Headers = append(m.Headers, broker.Header{Name: more[i], Value: more[i+1]})
	}
	return m
}

// structured is the same in structured mode.
func structured(t testing.TB, to carillon.Target, id, typ, subject, data string) broker.Message {
	t.Helper()
	m := event(to, id, typ, subject, "")
	body := map[string]any{"specversion": "1.0", "id": id, "source": "/test", "type": typ, "subject": subject}
	if data != "" {
		body["data"] = json.RawMessage(data)
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	m.Headers, m.ContentType, m.Data = nil, "application/cloudevents+json; charset=utf-8", text
	return m
}

const later = `{"due_time": "1000h", "target": {"worker": {"queue": "q"}}}`

// awaits waits until as many messages had an outcome, which none has a second time.
func (x *taking) awaits(t testing.TB, o ingest.Outcome, n int) {
	t.Helper()
	x.awaitsAtLeast(t, o, n)
	if got := x.get(o); got != n {
		t.Fatalf("%d messages are %s, not %d", got, o, n)
	}
}

// awaitsAtLeast waits until as many messages had an outcome.
func (x *taking) awaitsAtLeast(t testing.TB, o ingest.Outcome, n int) {
	t.Helper()
	realserver.Eventually(t, func() error {
		if got := x.get(o); got < n {
			return fmt.Errorf("%d messages are %s, not %d", got, o, n)
		}
		return nil
	})
}

func (n *node) job(t testing.TB, name string) *carillon.Job {
	t.Helper()
	j, err := n.Scheduler().GetJob(t.Context(), carillon.Key{Namespace: "shop", Name: name})
	if errors.Is(err, carillon.NotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return &j
}

// runs is how many runs wait that triggers of a job have made.
func (n *node) runs(t testing.TB, name string) int {
	t.Helper()
	return len(n.job(t, name).Status.Pending)
}

// reasons are those of the dead letters of a topic, by the event's id; without one, by the content.
func (k *kind) reasons(t testing.TB, topic string, n int) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, d := range k.read(t, dead(topic), n) {
		id := d.Header("ce-id")
		if id == "" {
			id = string(d.Data)
		}
		all[id] = strings.Join([]string{d.Header("carillon-reason-kind"), d.Header("carillon-reason-field"),
			d.Header("carillon-reason")}, " ")
		if !strings.Contains(d.Header("carillon-from"), topic) || d.Header("carillon-ingest") != "test" {
			t.Errorf("the dead letter %s is from %q by %q", id, d.Header("carillon-from"), d.Header("carillon-ingest"))
		}
	}
	return all
}
