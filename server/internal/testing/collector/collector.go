// Package collector is a receiver of OTLP for tests: it takes traces as a collector does, by gRPC and by
// HTTP, and keeps them.
package collector

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Collector keeps the spans that it is sent.
type Collector struct {
	collectorpb.UnimplementedTraceServiceServer
	URL  string // for OTLP over HTTP
	GRPC string // URL for OTLP over gRPC

	mu    sync.Mutex
	spans []Span
	came  chan struct{} // closed when more have come
}

// Span is a span as it was sent.
type Span struct {
	Name       string
	Kind       string // SERVER, PRODUCER, …
	Trace      string // hex
	ID         string
	Parent     string            // empty: none
	Links      []string          // TRACE-SPAN
	Attributes map[string]string // as text
	Resource   map[string]string
	Failed     bool
	Message    string // of the status
	Start, End time.Time
}

// Context returns the span's own trace-span, as in [Span.Links].
func (s *Span) Context() string { return s.Trace + "-" + s.ID }

// New starts a collector, which ends with the test.
func New(t *testing.T) *Collector {
	t.Helper()
	c := &Collector{came: make(chan struct{})}
	web := httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(web.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, c)
	go server.Serve(l) //nolint:errcheck // it ends when it is stopped
	t.Cleanup(server.Stop)
	c.URL, c.GRPC = web.URL, "http://"+l.Addr().String()
	return c
}

// serve takes OTLP over HTTP.
func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	m := &collectorpb.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(body, m)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, fmt.Sprintf("%s %s: %v", r.URL.Path, r.Header.Get("Content-Type"), err),
			http.StatusBadRequest)
		return
	}
	c.add(m)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// Export implements OTLP over gRPC.
func (c *Collector) Export(_ context.Context,
	m *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	c.add(m)
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

func (c *Collector) add(m *collectorpb.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range m.GetResourceSpans() {
		for _, s := range r.GetScopeSpans() {
			for _, span := range s.GetSpans() {
				c.spans = append(c.spans, read(span, texts(r.GetResource().GetAttributes())))
			}
		}
	}
	close(c.came)
	c.came = make(chan struct{})
}

func read(s *tracepb.Span, resource map[string]string) Span {
	out := Span{Name: s.GetName(), Kind: s.GetKind().String()[len("SPAN_KIND_"):],
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
		Parent: hex.EncodeToString(s.GetParentSpanId()), Attributes: texts(s.GetAttributes()), Resource: resource,
		Failed:  s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR,
		Message: s.GetStatus().GetMessage(),
		Start:   time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano()))}
	for _, l := range s.GetLinks() {
		out.Links = append(out.Links, hex.EncodeToString(l.GetTraceId())+"-"+hex.EncodeToString(l.GetSpanId()))
	}
	return out
}

// texts are attributes as text.
func texts(all []*commonpb.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range all {
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			out[a.GetKey()] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			out[a.GetKey()] = strconv.FormatInt(v.IntValue, 10)
		case *commonpb.AnyValue_DoubleValue:
			out[a.GetKey()] = fmt.Sprint(v.DoubleValue)
		default:
			out[a.GetKey()] = a.GetValue().String()
		}
	}
	return out
}

// Spans returns what has come so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Await waits until enough reports that the spans are, and returns them. It fails the test after 30 s.
func (c *Collector) Await(t *testing.T, enough func(spans []Span) bool) []Span {
	t.Helper()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	for {
		c.mu.Lock()
		spans, came := append([]Span(nil), c.spans...), c.came
		c.mu.Unlock()
		if enough(spans) {
			return spans
		}
		select {
		case <-came:
		case <-late.C:
			t.Fatalf("not enough spans came: %+v", spans)
		}
	}
}

// AwaitNamed waits for n spans whose names are in names.
func (c *Collector) AwaitNamed(t *testing.T, n int, names ...string) []Span {
	t.Helper()
	var found []Span
	c.Await(t, func(spans []Span) bool {
		found = nil
		for i := range spans {
			for _, name := range names {
				if spans[i].Name == name {
					found = append(found, spans[i])
				}
			}
		}
		return len(found) >= n
	})
	return found
}
