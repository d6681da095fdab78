package ingest_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

var throughput = flag.Int("ingest-messages", 0, "how many messages TestThroughput takes; 0: it is left out")

// TestThroughput takes many puts from each kind of broker, each of another job, on a node with a store in
// memory; and beside it what the client's library takes that does nothing but acknowledge. It logs the rates,
// and the processor's time of this process, in which the server of NATS is, too. Each message has made its job.
func TestThroughput(t *testing.T) {
	if *throughput == 0 {
		t.Skip("give -ingest-messages")
	}
	for name, start := range map[string]func(testing.TB) *kind{"kafka": startKafka, "redis": startRedis,
		"rabbitmq": startRabbitMQ, "nats": startNATS} {
		t.Run(name, func(t *testing.T) { throughputOf(t, start(t)) })
	}
}

func throughputOf(t *testing.T, k *kind) {
	k.fill(t, "bare", *throughput)
	rate(t, "the client's library alone", func() { k.readBare(t, "bare", *throughput) })
	k.fill(t, "many", *throughput)
	n := start(t)
	c := ingest.Config{Name: "test", Broker: "b", Settings: k.settings, Topics: []string{"many"}, Group: k.group,
		Namespace: "shop", DeadLetter: k.topic(t, "many-dead"), InFlight: 1024, Remember: time.Hour}
	x := &counts{of: map[ingest.Outcome]int{}}
	var g *ingest.Ingest
	rate(t, "the ingest", func() {
		var err error
		g, err = ingest.Start(c, ingest.Options{To: n.to,
			Sources: map[string]broker.NewSource{k.settings.Kind: k.source},
			Clients: map[string]broker.New{k.settings.Kind: k.client}, Log: slog.New(slog.DiscardHandler),
			Count: func(_, _ string, o ingest.Outcome) { x.add(o) }})
		if err != nil {
			t.Fatal(err)
		}
		realserver.Eventually(t, func() error {
			if got := x.get(ingest.Done); got < *throughput {
				return fmt.Errorf("%d are done", got)
			}
			return nil
		})
	})
	g.Close(context.Background())
	if x.get(ingest.Done) != *throughput || x.get(ingest.Dead) != 0 || n.jobs(t) != *throughput {
		t.Errorf("of %d messages %d are done and %d dead letters, and there are %d jobs", *throughput, x.get(ingest.Done),
			x.get(ingest.Dead), n.jobs(t))
	}
}

// jobs is how many jobs the node has.
func (n *node) jobs(t testing.TB) (count int) {
	t.Helper()
	q := carillon.JobQuery{Namespace: "shop", PageSize: carillon.MaxBatch}
	for {
		page, err := n.Scheduler().ListJobs(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		count += len(page.Jobs)
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return count
		}
	}
}

// fill sends as many events to a topic, each a create of another job.
func (k *kind) fill(t testing.TB, topic string, n int) {
	t.Helper()
	to := k.topic(t, topic)
	all := make([]broker.Message, n)
	for i := range all {
		all[i] = event(to, fmt.Sprint(i), ingest.JobCreate, fmt.Sprint("j", i), later)
	}
	for ms := range slices.Chunk(all, 1000) {
		k.send(t, ms...)
	}
}

// rate logs how fast f takes the messages.
func rate(t testing.TB, what string, f func()) {
	t.Helper()
	began, used := time.Now(), usedCPU(t)
	f()
	each := float64(usedCPU(t)-used) / float64(time.Microsecond) / float64(*throughput)
	t.Logf("%s: %.0f messages/s, %.1f µs of a processor each", what,
		float64(*throughput)/time.Since(began).Seconds(), each)
}

// usedCPU is the time that this process has had of the processors.
func usedCPU(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
