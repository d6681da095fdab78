package amqp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rig is a broker with a connection of its owner, who sees what is there.
type rig struct {
	*realserver.RabbitMQ

	mu    sync.Mutex // a channel does one thing at a time
	owner *amqp091.Channel
}

// maxBytes is the broker's max_message_size in tests.
const maxBytes = 100_000

// begin connects the owner, after a restart too.
func (r *rig) begin(t testing.TB) {
	t.Helper()
	conn, err := amqp091.Dial("amqp://guest:guest@" + r.Address() + "/")
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // it may be gone
	r.owner, err = conn.Channel()
	must(t, err)
}

// queue declares a durable queue that is named after the test.
func (r *rig) queue(t testing.TB, args amqp091.Table) string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	name := strings.ReplaceAll(t.Name(), "/", ".")
	_, err := r.owner.QueueDeclare(name, true, false, false, false, args)
	must(t, err)
	return name
}

// bind makes an exchange, durable, and binds the test's queue to it.
func (r *rig) bind(t testing.TB, kind, key string) (exchange string) {
	t.Helper()
	queue := r.queue(t, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	exchange = queue + ".exchange"
	must(t, r.owner.ExchangeDeclare(exchange, kind, true, false, false, false, nil))
	must(t, r.owner.QueueBind(queue, key, exchange, false, nil))
	return exchange
}

// drain takes everything from a queue.
func (r *rig) drain(t testing.TB, queue string) (all []amqp091.Delivery) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		d, ok, err := r.owner.Get(queue, true)
		must(t, err)
		if !ok {
			return all
		}
		all = append(all, d)
	}
}

// depth is how many messages a queue has.
func (r *rig) depth(t testing.TB, queue string) int {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	q, err := r.owner.QueueDeclarePassive(queue, true, false, false, false, nil)
	must(t, err)
	return q.Messages
}

func ids(all []amqp091.Delivery) (out []string) {
	for i := range all {
		out = append(out, all[i].MessageId)
	}
	return out
}

func (r *rig) options() Options {
	return Options{Addresses: []string{r.Address()}, Username: "guest", Password: "guest"}
}

// client makes one that ends with the test.
func client(t testing.TB, o Options) *Client {
	t.Helper()
	c, err := New(o)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// only is the connection of a client that needs no more than one; nil: it has none. c.mu is held.
func (c *Client) only() *link {
	if len(c.links) == 0 {
		return nil
	}
	return c.links[0]
}

// message makes one to an exchange and a routing key.
func message(exchange, key, id string, bytes int) broker.Message {
	return broker.Message{ID: id, Data: make([]byte, bytes), ContentType: "text/plain",
		To:      carillon.Target{AMQP: &carillon.AMQPTarget{Exchange: exchange, RoutingKey: key}},
		Headers: []broker.Header{{Name: "ce-id", Value: id}, {Name: "carillon-job", Value: "a"}}}
}

// many makes messages of 200 bytes.
func many(exchange, key string, n int) []broker.Message {
	ms := make([]broker.Message, n)
	for i := range ms {
		ms[i] = message(exchange, key, fmt.Sprintf("%s%s-%06d", exchange, key, i), 200)
	}
	return ms
}

// calls is what done was called with.
type calls struct {
	t    testing.TB
	errs []error
	all  sync.WaitGroup

	mu   sync.Mutex
	seen []bool
}

// start publishes.
func start(ctx context.Context, t testing.TB, c *Client, ms []broker.Message) *calls {
	a := &calls{t: t, errs: make([]error, len(ms)), seen: make([]bool, len(ms))}
	a.all.Add(len(ms))
	c.Publish(ctx, ms, a.done)
	return a
}

func (a *calls) done(i int, err error) {
	a.mu.Lock()
	twice := a.seen[i]
	a.seen[i], a.errs[i] = true, err
	a.mu.Unlock()
	if twice {
		a.t.Errorf("done was called twice for message %d", i)
		return
	}
	a.all.Done()
}

// called is how many messages done was called for.
func (a *calls) called() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, seen := range a.seen {
		if seen {
			n++
		}
	}
	return n
}

// wait returns what became of each message.
func (a *calls) wait() []error {
	a.all.Wait()
	return a.errs
}

// patience is far more than anything here takes.
const patience = time.Minute

// publish publishes and waits for all answers.
func publish(t testing.TB, c *Client, ms ...broker.Message) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return start(ctx, t, c, ms).wait()
}

// kinds counts what became of messages.
type kinds struct{ acknowledged, unsent, refused, doubtful int }

func count(errs []error) (k kinds) {
	for _, err := range errs {
		switch {
		case err == nil:
			k.acknowledged++
		case errors.Is(err, broker.ErrUnsent):
			k.unsent++
		case errors.Is(err, broker.ErrRefused):
			k.refused++
		default:
			k.doubtful++
		}
	}
	return k
}

// want fails the test if it is otherwise.
func want(t testing.TB, errs []error, k kinds) {
	t.Helper()
	if got := count(errs); got != k {
		t.Fatalf("%+v, want %+v; first %v, last %v", got, k, errs[0], errs[len(errs)-1])
	}
}

// says fails the test if an error does not have a text, for users.
func says(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("%v; want it to say %q", err, p)
		}
	}
}
