package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// BenchmarkPublish publishes messages of 200 bytes, 1,000 at a time and a few such lots at once, by this client
// and by franz-go alone.
func BenchmarkPublish(b *testing.B) {
	certificate, key, _ := realserver.Authority(b)
	k := &cluster{Kafka: realserver.NewKafka(b, certificate, key)}
	k.Up(b)
	data := make([]byte, 200)
	for i := range data {
		data[i] = byte('a' + i%26)
	}
	for _, partitions := range []int32{1, 4} {
		for _, at := range []int{1, 100, 1000} {
			topic := fmt.Sprintf("bench-%d-%d", partitions, at)
			k.Topic(b, topic, partitions)
			b.Run(fmt.Sprintf("carillon/%d partitions/%d at a time", partitions, at), func(b *testing.B) {
				c := k.open(b)
				measure(b, at, func(n int, done func(error)) {
					ms := messages(topic, "bench", n)
					for i := range ms {
						ms[i].Data, ms[i].To.Kafka.Key = data, ms[i].ID
					}
					c.Publish(b.Context(), ms, func(_ int, err error) { done(err) })
				})
			})
			b.Run(fmt.Sprintf("franz-go/%d partitions/%d at a time", partitions, at), func(b *testing.B) {
				c, err := kgo.NewClient(kgo.SeedBrokers(k.Address()), kgo.ProducerLinger(0))
				must(b, err)
				defer c.Close()
				measure(b, at, func(n int, done func(error)) {
					for _, m := range messages(topic, "bench", n) {
						c.Produce(context.Background(), bare(&m, data), func(_ *kgo.Record, err error) { done(err) })
					}
				})
			})
		}
	}
}

// bare is a message as franz-go is given it by someone without this package.
func bare(m *broker.Message, data []byte) *kgo.Record {
	r := &kgo.Record{Topic: m.To.Kafka.Topic, Key: []byte(m.ID), Value: data}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
	}
	return r
}

// measure publishes b.N messages in lots, several at once.
func measure(b *testing.B, at int, publish func(n int, done func(error))) {
	const atOnce = 4
	var mu sync.Mutex
	var took []time.Duration
	room := make(chan struct{}, atOnce)
	b.ResetTimer()
	for left := b.N; left > 0; left -= at {
		n := min(at, left)
		room <- struct{}{}
		begin, still := time.Now(), n
		publish(n, func(err error) {
			if err != nil {
				b.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if still--; still == 0 {
				took = append(took, time.Since(begin))
				<-room
			}
		})
	}
	for range atOnce {
		room <- struct{}{}
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
