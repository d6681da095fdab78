package rates

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rabbitmq/amqp091-go"
	"github.com/redis/rueidis"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topic is where all messages go: a topic, a queue, a subject, or a stream.
const topic = "runs"

// message is one as large as that of a run.
type message struct {
	id      string
	headers [][2]string
	data    []byte
}

// newMessage is the i-th message of a lot, with headers as a run's message has them.
func newMessage(lot string, i int) message {
	const at = "2027-01-15T08:00:00.123456789Z"
	id := fmt.Sprintf("%s-%019d-%020d", lot, i, i)
	job := fmt.Sprint("bench/", lot, "/", i)
	return message{id: id, data: bytes.Repeat([]byte("x"), 64), headers: [][2]string{
		{"ce-specversion", "1.0"}, {"ce-id", id}, {"ce-source", "/v1/namespaces/default/jobs/" + job},
		{"ce-type", "com.carillonhq.run"}, {"ce-subject", job}, {"ce-time", at}, {"idempotency-key", id},
		{"carillon-job", "default/" + job}, {"carillon-scheduled-time", at}, {"carillon-attempt", "1"},
		{"carillon-deadline", at}, {"carillon-token", id + "-0123456789"},
		{"traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00"},
		{"content-type", "application/octet-stream"},
	}}
}

// lot is a name that no other messages have.
func lot() string { return rand.Text()[:10] }

// wait waits until a time.
func wait(ctx context.Context, until time.Time) error {
	d := time.Until(until)
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// bareKafka produces with franz-go's idempotent producer, acks=all.
func bareKafka(c *kgo.Client) publish {
	return func(ctx context.Context, n int, due func(int) time.Time, acked func(int)) error {
		name := lot()
		room := make(chan struct{}, *inFlight)
		var mu sync.Mutex
		var failed error
		for i := range n {
			if err := wait(ctx, due(i)); err != nil {
				return err
			}
			m := newMessage(name, i)
			r := &kgo.Record{Topic: topic, Key: []byte(m.id), Value: m.data}
			for _, h := range m.headers {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
			}
			room <- struct{}{}
			c.Produce(ctx, r, func(_ *kgo.Record, err error) {
				acked(i)
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
				<-room
			})
		}
		for range *inFlight {
			room <- struct{}{}
		}
		mu.Lock()
		defer mu.Unlock()
		return failed
	}
}

// inOrder publishes one message after the other, and waits for their answers in the same order beside it.
func inOrder[T any](ctx context.Context, n int, due func(int) time.Time, acked func(int),
	send func(m message) (T, error), answer func(T) error) error {
	name, answers, over := lot(), make(chan T, *inFlight-1), make(chan error, 1) // and one that is waited for
	go func() {
		var failed error
		i := 0
		for a := range answers {
			failed = errors.Join(failed, answer(a))
			acked(i)
			i++
		}
		over <- failed
	}()
	var err error
	for i := 0; i < n && err == nil; i++ {
		if err = wait(ctx, due(i)); err != nil {
			break
		}
		var a T
		if a, err = send(newMessage(name, i)); err == nil {
			answers <- a
		}
	}
	close(answers)
	return errors.Join(err, <-over)
}

// bareAMQP publishes persistent messages in one channel with publisher confirms.
func bareAMQP(ch *amqp091.Channel) publish {
	return func(ctx context.Context, n int, due func(int) time.Time, acked func(int)) error {
		return inOrder(ctx, n, due, acked, func(m message) (*amqp091.DeferredConfirmation, error) {
			p := amqp091.Publishing{Headers: amqp091.Table{}, DeliveryMode: amqp091.Persistent, MessageId: m.id,
				Body: m.data}
			for _, h := range m.headers {
				p.Headers[h[0]] = h[1]
			}
			return ch.PublishWithDeferredConfirm("", topic, true, false, p)
		}, func(a *amqp091.DeferredConfirmation) error {
			if ok, err := a.WaitContext(ctx); err != nil || !ok {
				return errors.Join(errors.New("no confirm"), err)
			}
			return nil
		})
	}
}

// bareNATS publishes asynchronously to JetStream.
func bareNATS(js jetstream.JetStream) publish {
	return func(ctx context.Context, n int, due func(int) time.Time, acked func(int)) error {
		return inOrder(ctx, n, due, acked, func(m message) (jetstream.PubAckFuture, error) {
			out := &nats.Msg{Subject: topic, Header: nats.Header{nats.MsgIdHdr: {m.id}}, Data: m.data}
			for _, h := range m.headers {
				out.Header[h[0]] = []string{h[1]}
			}
			return js.PublishMsgAsync(out, jetstream.WithStallWait(time.Minute))
		}, func(f jetstream.PubAckFuture) error {
			select {
			case <-f.Ok():
				return nil
			case err := <-f.Err():
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}
}

// bareRedis adds entries by pipelines of two callers, each of what is due.
func bareRedis(c rueidis.Client) publish {
	const callers = 2
	return func(ctx context.Context, n int, due func(int) time.Time, acked func(int)) error {
		name, ready, ends := lot(), make(chan int, n), make(chan error, callers)
		for range callers {
			go func() { ends <- pipelines(ctx, c, name, *inFlight/callers, ready, acked) }()
		}
		var err error
		for i := 0; i < n && err == nil; i++ {
			if err = wait(ctx, due(i)); err == nil {
				ready <- i
			}
		}
		close(ready)
		for range callers {
			err = errors.Join(err, <-ends)
		}
		return err
	}
}

// pipelines adds what is ready, so many at a time, until nothing will be.
func pipelines(ctx context.Context, c rueidis.Client, name string, most int, ready <-chan int,
	acked func(int)) error {
	for first := range ready {
		is, more := []int{first}, true
		for more && len(is) < most {
			select {
			case i, ok := <-ready:
				if more = ok; ok {
					is = append(is, i)
				}
			default:
				more = false
			}
		}
		adds := make(rueidis.Commands, 0, len(is))
		for _, i := range is {
			m := newMessage(name, i)
			args := []string{"*"}
			for _, h := range m.headers {
				args = append(args, h[0], h[1])
			}
			args = append(args, "data", rueidis.BinaryString(m.data))
			adds = append(adds, c.B().Arbitrary("XADD").Keys(topic).Args(args...).Build())
		}
		for n, r := range c.DoMulti(ctx, adds...) {
			if err := r.Error(); err != nil {
				return err
			}
			acked(is[n])
		}
	}
	return nil
}
