package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// echoEvents is a service of events that remembers what it was asked, sends what the test says, and ends.
type echoEvents struct {
	pb.UnsafeEventServiceServer
	asked   *pb.WatchRequest
	batches []*pb.WatchResponse
	err     error
}

func (e *echoEvents) Watch(m *pb.WatchRequest, s grpc.ServerStreamingServer[pb.WatchResponse]) error {
	e.asked = m
	for _, b := range e.batches {
		if err := s.Send(b); err != nil {
			return err
		}
	}
	return e.err
}

// watching serves the events in a server of net/http.
func watching(t *testing.T, e *echoEvents, o Streams) *httptest.Server {
	t.Helper()
	o.Events = e
	s := httptest.NewServer(api(t, &echo{}, Options{Streams: o}))
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, method, url, lastID string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	reply, err := (&http.Client{}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	var b strings.Builder
	if err := reply.Write(&b); err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(b.String(), "\r\n\r\n")
	return reply, body
}

func TestEventsAreServerSent(t *testing.T) {
	var ended []string
	e := &echoEvents{batches: []*pb.WatchResponse{
		{Position: "p0"},
		{Position: "p1", Events: []*pb.Event{{Id: "1", Type: "run.dead", Job: "a", Error: "two\nlines"},
			{Id: "2", Type: "job.created"}}},
	}, err: carillon.Errorf(carillon.Unavailable, "", "leaving")}
	s := watching(t, e, Streams{Ended: func(api, method, code string) {
		ended = append(ended, fmt.Sprint(api, " ", method, " ", code))
	}})
	reply, body := get(t, "GET", s.URL+"/v1/namespaces/ns/events:watch?types=run,job&prefix=a", "before")
	if reply.StatusCode != http.StatusOK || reply.Header.Get("Content-Type") != "text/event-stream" ||
		reply.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", reply)
	}
	want := "id: p0\n\n" +
		"event: run.dead\ndata: {\"id\":\"1\",\"type\":\"run.dead\",\"job\":\"a\",\"error\":\"two\\nlines\"}\n\n" +
		"id: p1\nevent: job.created\ndata: {\"id\":\"2\",\"type\":\"job.created\"}\n\n" +
		"event: problem\ndata: {\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503," +
		"\"code\":\"unavailable\",\"detail\":\"leaving\"}\n\n"
	if plain := unchunked(body); plain != want {
		t.Errorf("%q\nwant %q", plain, want)
	}
	if q := e.asked; q.GetNamespace() != "ns" || q.GetTypes() != "run,job" || q.GetPrefix() != "a" ||
		q.GetPosition() != "before" {
		t.Errorf("asked %v", q)
	}
	get(t, "GET", s.URL+"/v1/events:watch?position=given&types=run&types=job.created,node", "")
	if q := e.asked; q.GetNamespace() != "" || q.GetPosition() != "given" || q.GetTypes() != "run,job.created,node" {
		t.Errorf("asked %v", q)
	}
	get(t, "GET", s.URL+"/v1/events:watch?position=given", "before") // a browser that comes back
	if q := e.asked; q.GetPosition() != "before" {
		t.Errorf("asked %v", q)
	}
	if !slices.Equal(ended, slices.Repeat([]string{"rest Watch Unavailable"}, 3)) {
		t.Errorf("told %q", ended)
	}
}

// unchunked takes the lengths of chunks out of a body.
func unchunked(body string) string {
	var b strings.Builder
	for {
		size, rest, ok := strings.Cut(body, "\r\n")
		var n int
		if _, err := fmt.Sscanf(size, "%x", &n); !ok || err != nil || n == 0 || n > len(rest) {
			return b.String()
		}
		b.WriteString(rest[:n])
		body = strings.TrimPrefix(rest[n:], "\r\n")
	}
}

// TestARefusedStreamIsAProblem like any other call, as long as nothing was sent.
func TestARefusedStreamIsAProblem(t *testing.T) {
	e := &echoEvents{err: carillon.Errorf(carillon.FailedPrecondition, "position", "gone")}
	s := watching(t, e, Streams{})
	reply, body := get(t, "GET", s.URL+"/v1/events:watch", "")
	if reply.StatusCode != http.StatusConflict || !strings.Contains(body, `"field":"position"`) {
		t.Errorf("%v %q", reply.Status, body)
	}
	reply, body = get(t, "GET", s.URL+"/v1/events:watch?since=yesterday", "")
	if reply.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"field":"since"`) {
		t.Errorf("%v %q", reply.Status, body)
	}
	e.asked = nil
	if reply, _ = get(t, "HEAD", s.URL+"/v1/events:watch", ""); reply.StatusCode != http.StatusOK || e.asked != nil {
		t.Errorf("HEAD: %v, asked %v", reply.Status, e.asked)
	}
	for _, query := range []string{"?types=run.born", "?colour=red", "?prefix=a"} {
		if reply, _ = get(t, "HEAD", s.URL+"/v1/events:watch"+query, ""); reply.StatusCode != http.StatusBadRequest {
			t.Errorf("HEAD %s: %v", query, reply.Status)
		}
	}
	if reply, _ = get(t, "POST", s.URL+"/v1/events:watch", ""); reply.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v", reply.Status)
	}
}

// TestTheInterceptorIsAroundStreams as around those of gRPC.
func TestTheInterceptorIsAroundStreams(t *testing.T) {
	var around string
	s := watching(t, &echoEvents{}, Streams{Interceptor: func(srv any, ss grpc.ServerStream,
		info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		around = info.FullMethod
		return handler(srv, ss)
	}})
	get(t, "GET", s.URL+"/v1/events:watch", "")
	if around != pb.EventService_Watch_FullMethodName {
		t.Errorf("around %q", around)
	}
}

// TestAStreamOutlivesTheLimitsOfCalls: the server's limits on reading and writing a call are for calls that
// end.
func TestAStreamOutlivesTheLimitsOfCalls(t *testing.T) {
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	e := &echoEvents{batches: []*pb.WatchResponse{{Position: "p"}, {Position: "q"}}}
	r := httptest.NewRequestWithContext(context.Background(), "GET", "/v1/events:watch", http.NoBody)
	api(t, &echo{}, Options{Streams: Streams{Events: e}}).ServeHTTP(w, r)
	if want := []string{"read never", "write", "write"}; !slices.Equal(w.set, want) {
		t.Errorf("deadlines %q, want %q", w.set, want)
	}
}

// deadlines is a response that notes which deadlines are set.
type deadlines struct {
	*httptest.ResponseRecorder
	set []string
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, "read "+map[bool]string{true: "never", false: "then"}[at.IsZero()])
	return nil
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	if at.After(time.Now()) {
		d.set = append(d.set, "write")
	}
	return nil
}
