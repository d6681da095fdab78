package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is how long anything may take on a machine with much else to do.
const patience = time.Minute

// client is one that is closed with the test. It gives up sooner than one in use.
func client(t testing.TB, o kafka.Options) *kafka.Client {
	t.Helper()
	if o.SendWithin == 0 {
		o.SendWithin, o.ConnectWithin = time.Second, time.Second
	}
	c, err := kafka.New(o)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() }) // some are closed already
	return c
}

func message(topic, id, data string) broker.Message {
	return broker.Message{To: carillon.Target{Kafka: &carillon.KafkaTarget{Cluster: "c", Topic: topic}}, ID: id,
		Headers: []broker.Header{{Name: "ce-id", Value: id}, {Name: "carillon-job", Value: "default/a"}},
		Data:    []byte(data), ContentType: "text/plain"}
}

func messages(topic, prefix string, n int) []broker.Message {
	out := make([]broker.Message, n)
	for i := range out {
		out[i] = message(topic, fmt.Sprintf("%s-%04d", prefix, i), "data")
	}
	return out
}

// outcome is what becomes of the messages of one Publish.
type outcome struct {
	t    testing.TB
	mu   sync.Mutex
	errs []error
	done []bool
	left int
	over chan struct{}
}

// start publishes and does not wait.
func start(ctx context.Context, t testing.TB, c *kafka.Client, ms []broker.Message) *outcome {
	t.Helper()
	o := &outcome{t: t, errs: make([]error, len(ms)), done: make([]bool, len(ms)), left: len(ms),
		over: make(chan struct{})}
	c.Publish(ctx, ms, o.tell)
	return o
}

func (o *outcome) tell(i int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done[i] {
		o.t.Errorf("message %d was done twice: %v and then %v", i, o.errs[i], err)
		return
	}
	o.done[i], o.errs[i] = true, err
	if o.left--; o.left == 0 {
		close(o.over)
	}
}

// ok reports whether all is done, and went well.
func (o *outcome) ok() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, err := range o.errs {
		if err != nil {
			return false
		}
	}
	return o.left == 0
}

// wait returns what became of each.
func (o *outcome) wait() []error {
	o.t.Helper()
	select {
	case <-o.over:
	case <-time.After(patience):
		o.t.Fatalf("%d messages are not done", o.left)
	}
	return o.errs
}

func publish(t testing.TB, c *kafka.Client, ms ...broker.Message) []error {
	t.Helper()
	return start(t.Context(), t, c, ms).wait()
}

func allDone(t testing.TB, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

// all fails unless every error is of the kind.
func all(t testing.TB, errs []error, kind error) {
	t.Helper()
	for i, err := range errs {
		if !errors.Is(err, kind) {
			t.Fatalf("message %d: %v, want: %v", i, err, kind)
		}
	}
}

// inDoubt fails unless every message may be there.
func inDoubt(t testing.TB, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err == nil || errors.Is(err, broker.ErrUnsent) || errors.Is(err, broker.ErrRefused) {
			t.Fatalf("message %d: %v, want one of neither kind", i, err)
		}
	}
}

// contents are the records of a topic at present, in the order of each partition.
func contents(t testing.TB, address, topic string) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(topic),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(t, err)
	defer c.Close()
	const end = "the end"
	r := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = &topic
	r.Topics = append(r.Topics, asked)
	known, err := r.RequestWith(ctx, c)
	must(t, err)
	left := len(known.Topics[0].Partitions)
	for _, p := range known.Topics[0].Partitions {
		mark := &kgo.Record{Topic: topic, Partition: p.Partition, Value: []byte(end)}
		must(t, c.ProduceSync(ctx, mark).FirstErr())
	}
	var out []*kgo.Record
	for left > 0 {
		got := c.PollFetches(ctx)
		must(t, got.Err0())
		for _, r := range got.Records() {
			if string(r.Value) == end {
				left--
			} else {
				out = append(out, r)
			}
		}
	}
	return out
}

// id is that of the run of a record.
func id(t testing.TB, r *kgo.Record) string {
	t.Helper()
	return header(t, r, "ce_id")
}

func header(t testing.TB, r *kgo.Record, name string) string {
	t.Helper()
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	t.Fatalf("a record has no header %s: %v", name, r.Headers)
	return ""
}

// ids fails unless a topic has just these runs, in this order.
func ids(t testing.TB, address, topic string, want []string) {
	t.Helper()
	records := contents(t, address, topic)
	var got []string
	for _, r := range records {
		got = append(got, id(t, r))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("topic %s has %v, want %v", topic, got, want)
	}
}

func idsOf(ms []broker.Message) []string {
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = m.ID
	}
	return out
}
