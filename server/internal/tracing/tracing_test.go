package tracing_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
	schedulerv1 "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/testing/collector"
	"github.com/carillonhq/carillon/server/internal/tracing"
)

// counts holds how many spans had each outcome.
type counts struct {
	mu sync.Mutex
	of map[string]int
}

func (c *counts) add(outcome string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[outcome] += n
}

func (c *counts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.of)
}

func newTracer(t *testing.T, endpoint string, counted *counts, pairs ...string) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.New(t.Context(), tracing.Options{Endpoint: endpoint, Node: "n", Version: "v",
		Log: slog.New(slog.DiscardHandler), Count: counted.add, Getenv: env(pairs...)})
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

func closeTracer(t *testing.T, tracer *tracing.Tracer) {
	t.Helper()
	if err := tracer.Close(); err != nil {
		t.Error(err)
	}
}

// ended is the end of an attempt.
func ended(n int, cause delivery.Trace, own bool) delivery.EndedAttempt {
	at := time.Unix(1_800_000_000, 0)
	return delivery.EndedAttempt{Attempt: delivery.Attempt{RunID: "run", Number: n, Cause: cause, Own: own},
		Queue: delivery.Queue{Namespace: "default", Kind: "worker", Address: "q"}, Scheduled: at, Due: at,
		Started: at, Ended: at.Add(time.Second)}
}

// TestASpanHasTheContextThatItsConsumerGot, and is recorded if that said so, with every sampler.
func TestASpanHasTheContextThatItsConsumerGot(t *testing.T) {
	sampled := delivery.NewTrace([16]byte{0: 1, 15: 1}, [8]byte{1}, 1, "a=1")
	unsampled := delivery.NewTrace([16]byte{0: 2, 15: 255}, [8]byte{2}, 0, "")
	for _, sampler := range []string{"parentbased_always_on", "parentbased_always_off", "always_on", "always_off",
		"traceidratio", "parentbased_traceidratio"} {
		t.Run(sampler, func(t *testing.T) {
			c, counted := collector.New(t), &counts{}
			tracer := newTracer(t, c.URL, counted, "OTEL_TRACES_SAMPLER", sampler, "OTEL_TRACES_SAMPLER_ARG", "0.5")
			want := map[string]bool{}
			for n, cause := range []delivery.Trace{"", sampled, unsampled} {
				for i, own := range []bool{false, true} {
					a := ended(10*n+i, cause, own)
					got := tracer.Context(a.Attempt)
					if got != tracer.Context(a.Attempt) {
						t.Error("the context is another one each time")
					}
					if got.Sampled() {
						want[got.Parent()] = true
					}
					tracer.Ended(a)
				}
			}
			closeTracer(t, tracer)
			for _, s := range c.Spans() {
				if parent := "00-" + s.Context() + "-01"; !want[parent] {
					t.Errorf("nobody was given %s", parent)
				} else {
					delete(want, parent)
				}
			}
			if len(want) > 0 {
				t.Errorf("spans are missing: %v", want)
			}
		})
	}
}

// TestWhatCannotBeExportedIsCounted: what fails, and what does not even wait. Nothing is held up.
func TestWhatCannotBeExportedIsCounted(t *testing.T) {
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		http.Error(w, "no", http.StatusBadRequest)
	}))
	t.Cleanup(slow.Close)
	counted := &counts{}
	tracer := newTracer(t, slow.URL, counted, "OTEL_BSP_MAX_QUEUE_SIZE", "10")
	for n := range 25 {
		tracer.Ended(ended(n, "", true))
	}
	close(release)
	closeTracer(t, tracer)
	if got := counted.String(); got != "map[dropped:15 failed:10]" {
		t.Errorf("%s of 25 spans", got)
	}
}

// TestANodeEndsWithoutItsCollector within seconds.
func TestANodeEndsWithoutItsCollector(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-ctx.Done():
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(hangs.Close)
	t.Cleanup(cancel)
	tracer := newTracer(t, hangs.URL, &counts{})
	tracer.Ended(ended(1, "", true))
	closeTracer(t, tracer)
}

// TestEveryMethodIsKnown: those without spans change nothing or last.
func TestEveryMethodIsKnown(t *testing.T) {
	without := map[string]bool{}
	for _, name := range []string{"GetJob", "ListJobs", "ListRuns", "GetRun", "ListBackfills", "GetBackfill",
		"GetNamespace", "ListNamespaces", "GetCalendar", "ListCalendars", "PreviewSchedule", "ListTimes", "Work",
		"WatchJobs", "WatchHosts"} {
		without[name] = true
	}
	for _, d := range []grpc.ServiceDesc{pb.SchedulerService_ServiceDesc, schedulerv1.Scheduler_ServiceDesc} {
		names := []string{}
		for _, m := range d.Methods {
			names = append(names, m.MethodName)
		}
		for _, s := range d.Streams {
			names = append(names, s.StreamName)
		}
		for _, name := range names {
			if got := tracing.Changes("/" + d.ServiceName + "/" + name); got == without[name] {
				t.Errorf("%s has spans: %v", name, got)
			}
		}
	}
	if tracing.Changes("/carillon.peer.v1.PeerService/Forward") || tracing.Changes("/grpc.health.v1.Health/Check") {
		t.Error("calls that are not of an API have spans")
	}
}

// BenchmarkAttempt is what an attempt costs whose span is recorded, on the goroutine that hands it out and
// takes its result.
func BenchmarkAttempt(b *testing.B) {
	nowhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	b.Cleanup(nowhere.Close)
	for name, cause := range map[string]delivery.Trace{
		"sampled":     delivery.NewTrace([16]byte{1}, [8]byte{1}, 1, ""),
		"not sampled": delivery.NewTrace([16]byte{1}, [8]byte{1}, 0, "")} {
		b.Run(name, func(b *testing.B) {
			tracer, err := tracing.New(b.Context(), tracing.Options{Endpoint: nowhere.URL,
				Log: slog.New(slog.DiscardHandler), Count: func(string, int) {}, Getenv: env()})
			if err != nil {
				b.Fatal(err)
			}
			a := ended(1, cause, false)
			b.ReportAllocs()
			for b.Loop() {
				_ = tracer.Context(a.Attempt)
				tracer.Ended(a)
			}
			_ = tracer.Close() // what waits may go
		})
	}
}
