package chaos_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rabbitmq/amqp091-go"
	"github.com/redis/rueidis"
	"github.com/twmb/franz-go/pkg/kgo"

	sched "github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// sent is an attempt as a broker has it.
type sent struct{ run, attempt string }

// killedBroker is a broker that is killed while runs go to it.
type killedBroker struct {
	settings string // of the file of brokers
	target   sched.Target
	crash    func(testing.TB)
	up       func(testing.TB)
	// contents adds what the broker has got since it was called last.
	contents func(ctx context.Context, to map[sent]int) error
}

const (
	brokerLots  = 24 // of jobs that are put, for each kill
	brokerLot   = 50
	brokerEvery = 50 * time.Millisecond
)

// TestBrokersAreKilled kills each kind of broker under about 1,000 runs a second, and starts it again, and then the
// node: with -cycles that often. Every run succeeds and is at the broker, and no run has more attempts there than it has
// made. An attempt that the node may have sent when it was killed is in doubt and made again, as the same one
// (docs/decisions/0033): it is there at most once for each life of the node.
func TestBrokersAreKilled(t *testing.T) {
	t.Parallel()
	binary := carillonBinary(t)
	for name, start := range map[string]func(*testing.T) killedBroker{
		"kafka": startKafka, "amqp": startAMQP, "nats": startNATS, "redis": startRedisStream} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			file := filepath.Join(t.TempDir(), "brokers.yaml")
			must(t, os.WriteFile(file, []byte("brokers:\n  tested:\n"+b.settings), 0o600))
			n := newNode(t, binary, "pebble:"+filepath.Join(t.TempDir(), "store"), "--brokers", file)
			up(t, n)
			killBroker(t, n, &b)
		})
	}
}

func killBroker(t *testing.T, n *chaos.Node, b *killedBroker) {
	c := dial(t, n)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	always := sched.Constant(100 * time.Millisecond)
	put, kills := 0, cmp.Or(*cycles, 1)
	pace := time.NewTicker(brokerEvery)
	defer pace.Stop()
	for kill := range kills {
		for lot := range brokerLots {
			jobs := make([]sched.Job, brokerLot)
			for i := range jobs {
				jobs[i] = sched.Job{Name: fmt.Sprintf("job-%d", put), Target: b.target, Data: payload,
					FailurePolicy: always, Due: sched.At(time.Now())}
				put++
			}
			_, err := c.PutJobs(ctx, jobs)
			must(t, err)
			switch lot {
			case brokerLots / 3:
				b.crash(t)
			case 2 * brokerLots / 3:
				b.up(t)
			case 5 * brokerLots / 6:
				must(t, n.Kill())
				up(t, n)
				c = dial(t, n)
			}
			<-pace.C
		}
		t.Logf("kill %d of %d: %d jobs put", kill+1, kills, put)
	}
	attempts := map[string]int{}
	for len(attempts) < put {
		attempts = succeeded(ctx, t, c)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d runs have succeeded", len(attempts), put)
		}
	}
	there := map[sent]int{}
	must(t, b.contents(ctx, there))
	of := map[string]int{}
	for s, times := range there {
		of[s.run]++
		if times > 1+kills {
			t.Errorf("attempt %s of run %s is there %d times", s.attempt, s.run, times)
		}
	}
	more, doubles := 0, len(there)-put
	for run, n := range attempts {
		switch {
		case of[run] == 0:
			t.Errorf("run %s has succeeded, and is not there", run)
		case of[run] > n:
			t.Errorf("run %s is there %d times, by %d attempts", run, of[run], n)
		case n > 1:
			more++
		}
		delete(of, run)
	}
	if len(of) > 0 {
		t.Errorf("nobody has sent %v", slices.Sorted(maps.Keys(of)))
	}
	t.Logf("%d kills, %d runs, %d by several attempts, %d messages, %d more than runs", kills, put, more, len(there),
		doubles)
}

// succeeded are the runs that have succeeded, with their attempts.
func succeeded(ctx context.Context, t *testing.T, c *client.Client) map[string]int {
	t.Helper()
	all := map[string]int{}
	q := sched.RunQuery{Namespace: sched.DefaultNamespace, Statuses: []sched.RunStatus{sched.RunSucceeded},
		PageSize: 1000}
	for {
		page, err := c.ListRuns(ctx, q)
		must(t, err)
		for _, r := range page.Runs {
			all[r.ID] = r.Attempt
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return all
		}
	}
}

func startKafka(t *testing.T) killedBroker {
	certificate, key, _ := realserver.Authority(t)
	k := realserver.NewKafka(t, certificate, key)
	k.Up(t)
	k.Topic(t, "runs", 3)
	return killedBroker{
		settings: fmt.Sprintf("    kind: kafka\n    addresses: [%q]\n", k.Address()),
		target:   sched.Target{Kafka: &sched.KafkaTarget{Cluster: "tested", Topic: "runs"}},
		crash:    k.Crash, up: k.Up,
		contents: func(ctx context.Context, to map[sent]int) error {
			const last = "the end"
			c, err := kgo.NewClient(kgo.SeedBrokers(k.Address()), kgo.ConsumeTopics("runs"),
				kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			if err != nil {
				return err
			}
			defer c.Close()
			for p := range int32(3) {
				end := &kgo.Record{Topic: "runs", Partition: p, Value: []byte(last)}
				if err := c.ProduceSync(ctx, end).FirstErr(); err != nil {
					return err
				}
			}
			for left := 3; left > 0; {
				got := c.PollFetches(ctx)
				if err := got.Err(); err != nil {
					return err
				}
				for _, r := range got.Records() {
					if string(r.Value) == last {
						left--
						continue
					}
					headers := map[string]string{}
					for _, h := range r.Headers {
						headers[h.Key] = string(h.Value)
					}
					to[sent{headers["ce_id"], headers["carillon-attempt"]}]++
				}
			}
			return nil
		}}
}

func startAMQP(t *testing.T) killedBroker {
	r := realserver.StartRabbitMQ(t)
	open := func() (*amqp091.Channel, error) {
		conn, err := amqp091.Dial("amqp://guest:guest@" + r.Address())
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = conn.Close() }) // the broker may have gone before
		return conn.Channel()
	}
	ch, err := open()
	must(t, err)
	_, err = ch.QueueDeclare("runs", true, false, false, false, nil)
	must(t, err)
	password := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(password, []byte("guest\n"), 0o600))
	return killedBroker{
		settings: fmt.Sprintf("    kind: amqp\n    addresses: [%q]\n    user: guest\n    password_file: %s\n",
			r.Address(), password),
		target: sched.Target{AMQP: &sched.AMQPTarget{Broker: "tested", RoutingKey: "runs"}},
		crash:  r.Crash, up: r.Up,
		contents: func(_ context.Context, to map[sent]int) error {
			ch, err := open()
			if err != nil {
				return err
			}
			for {
				m, more, err := ch.Get("runs", true)
				if err != nil || !more {
					return err
				}
				to[sent{m.MessageId, fmt.Sprint(m.Headers["carillon-attempt"])}]++
			}
		}}
}

func startNATS(t *testing.T) killedBroker {
	n := realserver.StartNATS(t)
	runs, err := n.JetStream(t).CreateStream(t.Context(), jetstream.StreamConfig{Name: "RUNS",
		Subjects: []string{"runs"}})
	must(t, err)
	return killedBroker{
		settings: fmt.Sprintf("    kind: nats\n    addresses: [%q]\n", n.Address()),
		target:   sched.Target{NATS: &sched.NATSTarget{Server: "tested", Subject: "runs"}},
		crash:    n.Crash, up: n.Up,
		contents: func(ctx context.Context, to map[sent]int) error {
			info, err := runs.Info(ctx)
			if err != nil {
				return err
			}
			for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
				m, err := runs.GetMsg(ctx, seq)
				if err != nil {
					return err
				}
				to[sent{m.Header.Get("ce-id"), m.Header.Get("carillon-attempt")}]++
			}
			return nil
		}}
}

func startRedisStream(t *testing.T) killedBroker {
	r := realserver.StartRedis(t)
	return killedBroker{
		settings: fmt.Sprintf("    kind: redis\n    addresses: [%q]\n", r.Address()),
		target:   sched.Target{Redis: &sched.RedisTarget{Server: "tested", Stream: "runs"}},
		crash:    r.Crash, up: r.Up,
		contents: func(ctx context.Context, to map[sent]int) error {
			c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.Address()}, DisableCache: true})
			if err != nil {
				return err
			}
			defer c.Close()
			all, err := c.Do(ctx, c.B().Xrange().Key("runs").Start("-").End("+").Build()).AsXRange()
			for _, e := range all {
				to[sent{e.FieldValues["ce-id"], e.FieldValues["carillon-attempt"]}]++
			}
			return err
		}}
}
