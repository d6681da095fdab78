package amqp

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// batchSize is what a node hands over at a time under load.
const batchSize = 1000

// BenchmarkPublish publishes batches of messages of 200 bytes to a durable queue, one after the other; and
// with the library alone, in the simplest way that has the same promise.
func BenchmarkPublish(b *testing.B) {
	r := &rig{RabbitMQ: realserver.StartRabbitMQ(b)}
	r.begin(b)
	b.Run("client", func(b *testing.B) {
		c := client(b, r.options())
		ms := many("", r.queue(b, nil), batchSize)
		measure(b, func() {
			want(b, publish(b, c, ms...), kinds{acknowledged: batchSize})
		})
		r.purge(b)
	})
	b.Run("ten queues", func(b *testing.B) {
		c := client(b, r.options())
		var all [10][]broker.Message
		for i := range all {
			all[i] = many("", r.queue(b, nil)+fmt.Sprint(i), batchSize/len(all))
			_, err := r.owner.QueueDeclare(all[i][0].To.AMQP.RoutingKey, true, true, false, false, nil)
			must(b, err)
		}
		measure(b, func() {
			var answers []*calls
			for _, ms := range all {
				answers = append(answers, start(b.Context(), b, c, ms))
			}
			for _, a := range answers {
				want(b, a.wait(), kinds{acknowledged: batchSize / len(all)})
			}
		})
	})
	b.Run("library", func(b *testing.B) {
		conn, err := amqp091.Dial("amqp://guest:guest@" + r.Address() + "/")
		must(b, err)
		defer func() { must(b, conn.Close()) }()
		ch, err := conn.Channel()
		must(b, err)
		must(b, ch.Confirm(false))
		queue := r.queue(b, nil)
		ms := many("", queue, batchSize)
		measure(b, func() {
			answers := make([]*amqp091.DeferredConfirmation, len(ms))
			for i := range ms {
				answers[i], err = ch.PublishWithDeferredConfirm("", queue, true, false, publishing(&ms[i]))
				must(b, err)
			}
			for _, a := range answers {
				if !a.Wait() {
					b.Fatal("nack")
				}
			}
		})
		r.purge(b)
	})
	b.Run("one at a time", func(b *testing.B) {
		c := client(b, r.options())
		ms := many("", r.queue(b, nil), 1)
		for b.Loop() {
			want(b, publish(b, c, ms...), kinds{acknowledged: 1})
		}
		r.purge(b)
	})
}

// purge empties the benchmark's queue.
func (r *rig) purge(b *testing.B) {
	_, err := r.owner.QueuePurge(r.queue(b, nil), false)
	must(b, err)
}

// measure reports messages per second, and how long a batch takes.
func measure(b *testing.B, batch func()) {
	var took []time.Duration
	begin := time.Now()
	for b.Loop() {
		at := time.Now()
		batch()
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	b.ReportMetric(float64(batchSize*len(took))/time.Since(begin).Seconds(), "messages/s")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms/batch")
}
