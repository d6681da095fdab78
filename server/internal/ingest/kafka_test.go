package ingest_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/kafka"
	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

func TestKafka(t *testing.T) {
	t.Parallel()
	k := startKafka(t)
	for name, s := range map[string]broker.Subscription{"by number": {MostAhead: 10}, "by time": {Ahead: 1}} {
		s.Topic = "ahead-" + name[3:]
		t.Run("a held record holds up its partition "+name, func(t *testing.T) { aHeldRecord(t, k, s) })
	}
	onOneBroker(t, k) // the last of them ends the broker
}

// aHeldRecord is not acknowledged: little of its partition is received after it, and all of the others; and
// the rest when it is.
func aHeldRecord(t *testing.T, k *kind, s broker.Subscription) {
	to := k.topic(t, s.Topic)
	const most, atOnce, keys = 2000, 500, 12 // atOnce is what a source takes in one call
	of := func(i int) string { return fmt.Sprint("k", i) }
	for i := range keys {
		k.send(t, event(to, "probe"+of(i), ingest.JobPut, of(i), later))
	}
	partition, free := map[string]string{}, ""
	for _, d := range k.read(t, s.Topic, keys) {
		partition[d.Key], _, _ = strings.Cut(d.At, "@")
	}
	for i := range keys {
		if partition[of(i)] != partition[of(0)] {
			free = of(i)
		}
	}
	var ms []broker.Message
	for i := range most {
		ms = append(ms, event(to, fmt.Sprint(i), ingest.JobPut, of(0), later))
	}
	k.send(t, ms...)
	s.Group, s.InFlight = "ahead", 1000
	source, err := k.source(k.settings, s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var first *broker.Delivery
	held, others := 0, 0 // records of the partition, and of the key that is of another one
	receive := func() {
		all, err := source.Receive(ctx)
		if err != nil {
			t.Fatalf("%d records of the partition, and %d of others: %v", held, others, err)
		}
		for _, d := range all {
			at, _, _ := strings.Cut(d.At, "@")
			if d.Key == free {
				others++
			}
			if at == partition[of(0)] {
				if held++; first == nil {
					first = d
					continue
				}
			}
			d.Done()
		}
	}
	for held == 0 {
		receive()
	}
	for i := range 5 {
		k.send(t, event(to, fmt.Sprint("other", i), ingest.JobPut, free, later))
		for others < i+2 {
			receive()
		}
	}
	if held > atOnce+s.MostAhead {
		t.Errorf("%d records are received after one that is not acknowledged", held)
	}
	first.Done()
	for held < most {
		receive()
	}
	if err := source.Close(); err != nil {
		t.Error(err)
	}
}

func startKafka(t testing.TB) *kind {
	t.Helper()
	cert, key, roots := realserver.Authority(t)
	s := realserver.NewKafka(t, cert, key)
	linked := realserver.Link(t, s.LinkedAddress())
	s.Behind = linked.Address()
	s.Up(t)
	options := func(b broker.Settings) kafka.Options { return kafka.Options{Addresses: b.Addresses} }
	k := &kind{settings: broker.Settings{Kind: "kafka", Addresses: []string{s.Address()}, InFlight: 64},
		group: "carillon",
		client: func(b broker.Settings) (broker.Client, error) {
			return kafka.New(options(b))
		},
		source: func(b broker.Settings, of broker.Subscription) (broker.Source, error) {
			return kafka.NewSource(options(b), of)
		},
		crash: s.Crash, up: s.Up, linked: linked,
		stranger: func(_ broker.Settings, of broker.Subscription) (broker.Source, error) {
			return kafka.NewSource(kafka.Options{Addresses: []string{s.SecureAddress()}, TLS: &tls.Config{RootCAs: roots},
				Mechanism: kafka.Plain, User: realserver.KafkaStranger, Password: realserver.KafkaPassword}, of)
		},
		allow: func(t testing.TB, topic string) {
			t.Helper()
			s.AllowGroup(t, realserver.KafkaStranger, "carillon")
			s.Allow(t, realserver.KafkaStranger, topic, kmsg.ACLOperationRead)
		}}
	made := map[string]bool{}
	k.topic = func(t testing.TB, name string) carillon.Target {
		t.Helper()
		if !made[name] {
			made[name] = true
			s.Topic(t, name, 3)
		}
		return carillon.Target{Kafka: &carillon.KafkaTarget{Cluster: "b", Topic: name}}
	}
	k.read = func(t testing.TB, name string, n int) []*broker.Delivery { return readAll(t, k, name, n) }
	return k
}

// readAll reads the first n messages of a topic, by a source of another group.
func readAll(t testing.TB, k *kind, name string, n int) (all []*broker.Delivery) {
	t.Helper()
	s, err := k.source(k.settings, broker.Subscription{Topic: name, Group: "reader", InFlight: 1000})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(all) < n {
		got, err := s.Receive(ctx)
		if err != nil {
			t.Fatalf("%d messages of %d: %v", len(all), n, err)
		}
		for _, d := range got {
			d.Done()
			all = append(all, d)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return all
}
