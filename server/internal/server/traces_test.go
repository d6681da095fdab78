package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/tracecontext"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/collector"
	"github.com/carillonhq/carillon/worker"
)

// The span of a caller of these tests.
const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
	callers      = "00-" + callersTrace + "-" + callersSpan + "-01"
)

// tracing is the configuration of a node that exports its traces to c.
func tracing(t *testing.T, c *collector.Collector) server.Config {
	t.Helper()
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10") // ms
	return server.Config{Store: "memory:", Partitions: 4, Name: "n1",
		Targets:    server.Targets{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Monitoring: server.Monitoring{Traces: &server.Traces{Endpoint: c.URL}}}
}

// flaky is an HTTP target that fails once; headers gets those of its requests.
func flaky(t *testing.T, headers chan http.Header) string {
	t.Helper()
	var calls atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		headers <- r.Header
	}))
	t.Cleanup(target.Close)
	return target.URL + "/hook?secret=1"
}

// named returns the spans of a name.
func named(spans []collector.Span, name string) (out []collector.Span) {
	for _, s := range spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// TestAPutItsAttemptsAndRequestsAreOneTrace: the call is put by gRPC and by REST.
func TestAPutItsAttemptsAndRequestsAreOneTrace(t *testing.T) {
	const rpc, rest = "carillon.v1.SchedulerService/PutJob", "PUT /v1/{job.namespace=namespaces/*}/{job.name=jobs/**}"
	puts := map[string]func(t *testing.T, s *server.Server, url string){
		rpc: func(t *testing.T, s *server.Server, url string) {
			ctx := tracecontext.With(t.Context(), callers, "vendor=1")
			_, err := dial(t, s).PutJob(ctx, carillon.Job{Name: "a", Target: carillon.HTTP(url),
				FailurePolicy: carillon.Constant(0).WithMaxRetries(3)})
			if err != nil {
				t.Fatal(err)
			}
		},
		rest: func(t *testing.T, s *server.Server, url string) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
				"http://"+s.HTTPAddr()+"/v1/namespaces/default/jobs/a", strings.NewReader(`{"target":{"http":{"url":"`+
					url+`"}},"failure_policy":{"constant":{"interval":"0s","max_retries":3}}}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Traceparent", callers)
			req.Header.Set("Tracestate", "vendor=1")
			if status, body := do(t, req); status != http.StatusCreated {
				t.Fatal(status, body)
			}
		},
	}
	for name, put := range puts {
		t.Run(name, func(t *testing.T) {
			c, headers := collector.New(t), make(chan http.Header, 2)
			s := serve(t, tracing(t, c))
			url := flaky(t, headers)
			put(t, s, url)
			requests := []http.Header{await(t, headers), await(t, headers)}
			host := strings.TrimPrefix(url[:strings.LastIndexByte(url, '/')], "http://")
			spans := c.Await(t, func(all []collector.Span) bool { return len(all) >= 5 })
			calls, attempts := of(spans, "SERVER"), named(spans, "deliver "+host)
			sent := named(spans, "HTTP POST")
			if len(spans) != 5 || len(calls) != 1 || len(attempts) != 2 || len(sent) != 2 {
				t.Fatalf("these are not a put, two attempts and two requests: %+v", spans)
			}
			if !strings.HasPrefix(calls[0].Name, name[:strings.IndexAny(name, "{J")]) || calls[0].Parent != callersSpan {
				t.Errorf("the call: %+v", calls[0])
			}
			for i := range 2 {
				a := &attempts[i]
				if a.Trace != callersTrace || a.Parent != calls[0].ID || a.Kind != "PRODUCER" ||
					len(a.Links) != 1 || a.Links[0] != calls[0].Context() || a.Failed != (a.Attributes["carillon.attempt"] == "1") {
					t.Errorf("attempt %d: %+v", i, a)
				}
				r := &sent[i]
				if r.Trace != callersTrace || r.Parent != a.ID || r.Kind != "CLIENT" {
					t.Errorf("request %d: %+v", i, r)
				}
				if got := requests[i].Get("Traceparent"); got != "00-"+r.Context()+"-01" ||
					requests[i].Get("Tracestate") != "vendor=1" {
					t.Errorf("request %d has %s, its span is %s", i, got, r.Context())
				}
				if r.Attributes["url.full"] != strings.TrimSuffix(url, "?secret=1") {
					t.Errorf("the URL is shown as %s", r.Attributes["url.full"])
				}
			}
		})
	}
}

// of returns the spans of a kind.
func of(spans []collector.Span, kind string) (out []collector.Span) {
	for _, s := range spans {
		if s.Kind == kind {
			out = append(out, s)
		}
	}
	return out
}

// TestAHandlerIsInTheSpanOfItsAttempt, whose attributes say what it is; also over gRPC to the collector.
func TestAHandlerIsInTheSpanOfItsAttempt(t *testing.T) {
	c := collector.New(t)
	config := tracing(t, c)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_SERVICE_NAME", "jobs")
	config.Monitoring.Traces.Endpoint = c.GRPC
	s := serve(t, config)
	w := &rig{t: t, sched: dial(t, s)}
	contexts := make(chan trace.SpanContext, 2)
	defer w.work(w.sched, worker.Options{ID: "w1"}, func(ctx context.Context, run carillon.Run, _ []byte) error {
		contexts <- trace.SpanContextFromContext(ctx)
		if run.Metadata["mine"] != "1" {
			t.Errorf("metadata %v", run.Metadata)
		}
		if run.Attempt == 1 {
			return errors.New("on purpose")
		}
		return nil
	})()
	put, err := w.sched.PutJob(tracecontext.With(t.Context(), callers, ""), carillon.Job{Name: "a",
		Target: carillon.WorkerQueue(queue), Metadata: map[string]string{"mine": "1"},
		FailurePolicy: carillon.Constant(0).WithMaxRetries(3)})
	if err != nil {
		t.Fatal(err)
	}
	got := []trace.SpanContext{await(t, contexts), await(t, contexts)}
	attempts := c.AwaitNamed(t, 2, "deliver "+queue)
	for i, a := range attempts {
		if got[i].TraceID().String() != callersTrace || got[i].SpanID().String() != a.ID || !got[i].IsSampled() ||
			!got[i].IsRemote() || a.Trace != callersTrace {
			t.Errorf("the handler was in %v, the attempt is %+v", got[i], a)
		}
	}
	run, err := w.sched.GetRun(t.Context(), "", attempts[0].Attributes["messaging.message.id"])
	if err != nil || run.Job != put.Job.Name {
		t.Errorf("%+v, %v", run, err)
	}
	first := attempts[0]
	for key, want := range map[string]string{"messaging.system": "carillon", "messaging.destination.name": queue,
		"messaging.operation.type": "send", "carillon.namespace": "default", "carillon.job": "a",
		"carillon.target": "worker", "carillon.attempt": "1", "carillon.cause": "schedule",
		"carillon.outcome": "failed", "carillon.worker": "w1"} {
		if first.Attributes[key] != want {
			t.Errorf("%s is %q, not %q", key, first.Attributes[key], want)
		}
	}
	if !first.Failed || first.Message != "on purpose" || first.Start.After(first.End) ||
		first.Resource["service.name"] != "jobs" || first.Resource["service.instance.id"] != "n1" {
		t.Errorf("%+v", first)
	}
}

// TestRunsOfARecurringJobHaveTracesOfTheirOwn, which link to the put; a trigger is in its caller's.
func TestRunsOfARecurringJobHaveTracesOfTheirOwn(t *testing.T) {
	c := collector.New(t)
	s := serve(t, tracing(t, c))
	w := &rig{t: t, sched: dial(t, s)}
	contexts := make(chan trace.SpanContext, 8)
	defer w.work(w.sched, worker.Options{}, func(ctx context.Context, run carillon.Run, _ []byte) error {
		contexts <- trace.SpanContextFromContext(ctx)
		if run.Attempt == 1 {
			return errors.New("on purpose")
		}
		return nil
	})()
	ctx := tracecontext.With(t.Context(), callers, "")
	if _, err := w.sched.PutJob(ctx, carillon.Job{Name: "a", Schedule: "@every 1h", Due: carillon.In(0),
		Target: carillon.WorkerQueue(queue), FailurePolicy: carillon.Constant(0).WithMaxRetries(3)}); err != nil {
		t.Fatal(err)
	}
	own := c.AwaitNamed(t, 2, "deliver "+queue)
	put := c.AwaitNamed(t, 1, "carillon.v1.SchedulerService/PutJob")[0]
	for _, a := range own {
		if a.Trace == callersTrace || a.Trace != own[0].Trace || a.Parent != "" || len(a.Links) != 1 ||
			a.Links[0] != put.Context() {
			t.Errorf("%+v", a)
		}
	}
	for range 2 {
		if got := await(t, contexts); got.TraceID().String() != own[0].Trace {
			t.Errorf("a handler was in %v", got)
		}
	}
	if _, err := w.sched.TriggerJob(ctx, carillon.Key{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	all := c.AwaitNamed(t, 4, "deliver "+queue)
	trigger := c.AwaitNamed(t, 1, "carillon.v1.SchedulerService/TriggerJob")[0]
	for _, a := range all[2:] {
		if a.Trace != callersTrace || a.Parent != trigger.ID || a.Attributes["carillon.cause"] != "trigger" {
			t.Errorf("%+v", a)
		}
	}
}

// TestWithoutExportTheCallersTraceIsPassedOn, and nothing is sent.
func TestWithoutExportTheCallersTraceIsPassedOn(t *testing.T) {
	c, headers := collector.New(t), make(chan http.Header, 2)
	config := tracing(t, c)
	config.Monitoring.Traces = nil
	s := serve(t, config)
	w := &rig{t: t, sched: dial(t, s)}
	contexts := make(chan string, 8)
	defer w.work(w.sched, worker.Options{}, func(ctx context.Context, run carillon.Run, _ []byte) error {
		parent, state := tracecontext.Of(ctx)
		contexts <- parent + " " + state
		return nil
	})()
	ctx := tracecontext.With(t.Context(), callers, "vendor=1")
	for _, j := range []carillon.Job{{Name: "w", Target: carillon.WorkerQueue(queue)},
		{Name: "h", Target: carillon.HTTP(flaky(t, headers)), FailurePolicy: carillon.Constant(0).WithMaxRetries(3)}} {
		if _, err := w.sched.PutJob(ctx, j); err != nil {
			t.Fatal(err)
		}
	}
	if got := await(t, contexts); got != callers+" vendor=1" {
		t.Errorf("the handler was in %s", got)
	}
	for range 2 {
		if h := await(t, headers); h.Get("Traceparent") != callers || h.Get("Tracestate") != "vendor=1" {
			t.Errorf("the target got %v", h)
		}
	}
	if _, err := w.sched.PutJob(ctx, carillon.Job{Name: "r", Schedule: "@every 1h", Due: carillon.In(0),
		Target: carillon.WorkerQueue(queue)}); err != nil {
		t.Fatal(err)
	}
	if got := await(t, contexts); len(got) != len(callers)+1 || strings.Contains(got, callersTrace) {
		t.Errorf("the handler of a recurring job was in %q", got)
	}
	if _, err := w.sched.PutJob(t.Context(), carillon.Job{Name: "n", Target: carillon.WorkerQueue(queue)}); err != nil {
		t.Fatal(err)
	}
	if got := await(t, contexts); got != " " {
		t.Errorf("the handler of a job that was put in no trace was in %q", got)
	}
	if spans := c.Spans(); len(spans) > 0 {
		t.Errorf("spans were sent: %+v", spans)
	}
}

// TestATraceGoesOnInTheNextLifeOfANode: the node is ended between two attempts, and while the second is in
// force.
func TestATraceGoesOnInTheNextLifeOfANode(t *testing.T) {
	c := collector.New(t)
	config := tracing(t, c)
	config.Store = "pebble:" + t.TempDir()
	s, stop := serveUntil(t, config)
	started, ctx := make(chan carillon.Run, 2), tracecontext.With(t.Context(), callers, "")
	first := dial(t, s)
	working := worker.New(first, worker.Options{Grace: -1})
	worker.Handle(working, queue, func(ctx context.Context, run carillon.Run, _ []byte) error {
		started <- run
		if run.Attempt == 1 {
			return errors.New("on purpose")
		}
		<-ctx.Done()
		return ctx.Err()
	})
	life, end := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- working.Run(life) }()
	if _, err := first.PutJob(ctx, carillon.Job{Name: "a", Target: carillon.WorkerQueue(queue),
		FailurePolicy: carillon.Constant(0).WithMaxRetries(3)}); err != nil {
		t.Fatal(err)
	}
	await(t, started)
	held := await(t, started)
	stop() // the second attempt stays in force
	s = serve(t, config)
	if err := dial(t, s).CompleteRun(t.Context(), "", carillon.Result{Token: held.Token, RunID: held.ID,
		Outcome: carillon.OutcomeSuccess}); err != nil {
		t.Fatal(err)
	}
	attempts := c.AwaitNamed(t, 2, "deliver "+queue)
	put := c.AwaitNamed(t, 1, "carillon.v1.SchedulerService/PutJob")[0]
	for _, a := range attempts {
		if a.Trace != callersTrace || a.Parent != put.ID {
			t.Errorf("%+v", a)
		}
	}
	second := attempts[1]
	if "00-"+second.Context()+"-01" != held.Metadata["traceparent"] || second.Attributes["carillon.outcome"] != "succeeded" {
		t.Errorf("the worker had %v, the span is %+v", held.Metadata, second)
	}
	if off := second.Start.Sub(held.Started); off.Abs() > time.Second {
		t.Errorf("the attempt started at %v, and its span at %v", held.Started, second.Start)
	}
	end()
	if err := await(t, left); err == nil {
		t.Error("the worker has finished a run that it still had")
	}
}

// TestACollectorThatIsAwayHoldsNothingUp: runs go on, and what could not be exported is counted.
func TestACollectorThatIsAwayHoldsNothingUp(t *testing.T) {
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusBadRequest) // which the exporter does not try again
	}))
	t.Cleanup(away.Close)
	config := tracing(t, collector.New(t))
	config.Monitoring.Traces.Endpoint = away.URL
	s := serve(t, config)
	w := &rig{t: t, sched: dial(t, s)}
	runs := make(chan struct{}, 1)
	defer w.work(w.sched, worker.Options{}, func(context.Context, carillon.Run, []byte) error {
		runs <- struct{}{}
		return nil
	})()
	for _, name := range []string{"a", "b"} {
		if _, err := w.sched.PutJob(t.Context(), carillon.Job{Name: name, Target: carillon.WorkerQueue(queue)}); err != nil {
			t.Fatal(err)
		}
		await(t, runs)
	}
	eventually(t, "spans that failed are counted", func() bool {
		_, text := get(t, "http://"+s.HTTPAddr()+"/metrics")
		return strings.Contains(text, `carillon_trace_spans_total{outcome="failed"} `)
	})
}

// TestMeasurementsNameATrace in OpenMetrics, if traces are exported.
func TestMeasurementsNameATrace(t *testing.T) {
	c := collector.New(t)
	s := serve(t, tracing(t, c))
	w := &rig{t: t, sched: dial(t, s)}
	defer w.work(w.sched, worker.Options{}, func(context.Context, carillon.Run, []byte) error { return nil })()
	if _, err := w.sched.PutJob(tracecontext.With(t.Context(), callers, ""),
		carillon.Job{Name: "a", Target: carillon.WorkerQueue(queue)}); err != nil {
		t.Fatal(err)
	}
	span := c.AwaitNamed(t, 1, "deliver "+queue)[0]
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.HTTPAddr()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	_, text := do(t, req)
	exemplar := regexp.MustCompile(` # \{.*span_id="` + span.ID + `".*\} `)
	for _, metric := range []string{"carillon_lateness_seconds_bucket{", "carillon_run_seconds_bucket{"} {
		found := false
		for line := range strings.Lines(text) {
			found = found || strings.HasPrefix(line, metric) && exemplar.MatchString(line)
		}
		if !found {
			t.Errorf("%s: no line has %s:\n%s", metric, exemplar, text)
		}
	}
	if !strings.HasSuffix(text, "# EOF\n") {
		t.Error("it is not OpenMetrics")
	}
}

// TestATraceCrossesNodes: jobs are put, alone and in a batch, through a node that owns few of their
// partitions, and triggered there.
func TestATraceCrossesNodes(t *testing.T) {
	c := collector.New(t)
	x := startTrio(t, tracing(t, c), 3)
	parents := make(chan trace.SpanContext, 100)
	w := worker.New(x.clients[1], worker.Options{})
	worker.Handle(w, queue, func(ctx context.Context, _ carillon.Run, _ []byte) error {
		parents <- trace.SpanContextFromContext(ctx)
		return nil
	})
	life, end := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- w.Run(life) }()
	ctx := tracecontext.With(t.Context(), callers, "")
	var batch []carillon.Job
	for p := range x.config.Partitions {
		job := carillon.Job{Name: x.name(p), Target: carillon.WorkerQueue(queue)}
		if _, err := x.clients[0].PutJob(ctx, job); err != nil {
			t.Fatal(err)
		}
		job.Name = x.name(p)
		batch = append(batch, job)
	}
	if _, err := x.clients[0].PutJobs(ctx, batch); err != nil {
		t.Fatal(err)
	}
	later := carillon.Job{Name: x.name(7), Due: carillon.In(time.Hour), Target: carillon.WorkerQueue(queue)}
	if _, err := x.clients[0].PutJob(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	if _, err := x.clients[0].TriggerJob(ctx, later.Key()); err != nil {
		t.Fatal(err)
	}
	for range 2*x.config.Partitions + 1 {
		if got := await(t, parents); got.TraceID().String() != callersTrace {
			t.Errorf("a handler was in %v", got)
		}
	}
	spans := c.AwaitNamed(t, 2*x.config.Partitions+1, "deliver "+queue)
	all := c.Await(t, func(all []collector.Span) bool { return len(of(all, "SERVER")) == x.config.Partitions+3 })
	calls := map[string]string{}
	for _, s := range of(all, "SERVER") {
		calls[s.ID] = strings.TrimPrefix(s.Name, "carillon.v1.SchedulerService/")
	}
	by := map[string]int{}
	for _, s := range spans {
		by[calls[s.Parent]]++
	}
	if by["PutJob"] != 16 || by["BatchPutJobs"] != 16 || by["TriggerJob"] != 1 {
		t.Errorf("attempts by the call that they go back to: %v", by)
	}
	end()
	if err := await(t, left); err != nil {
		t.Error(err)
	}
}
