package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

func TestAround(t *testing.T) {
	h := api(t, &echo{}, Options{
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("metrics"))
		}),
		Other: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("dashboard"))
		}),
		AllowHost:      func(host string) bool { return host == "example.com" },
		TrustedOrigins: []string{"https://admin.example.com"},
	})
	for path, want := range map[string]string{"/livez": "ok\n", "/readyz": "ok\n", "/metrics": "metrics",
		"/": "dashboard"} {
		w := send(h, "GET "+path, "")
		if w.Code != 200 || w.Body.String() != want || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := send(h, "GET http://evil.test/livez", ""); w.Code != http.StatusForbidden {
		t.Errorf("another host: %d", w.Code)
	}
	const put = "PUT /v1/namespaces/ns/jobs/x"
	for _, c := range []struct {
		headers []string
		status  int
	}{
		{nil, 200}, // no browser
		{[]string{"Sec-Fetch-Site", "same-origin"}, 200},
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Origin", "https://evil.test"}, 403},
		{[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://admin.example.com"}, 200},
	} {
		if w := send(h, put, "{}", c.headers...); w.Code != c.status {
			t.Errorf("%v: %d %s", c.headers, w.Code, w.Body)
		}
	}
	if _, err := New(&echo{}, Options{TrustedOrigins: []string{"nonsense"}}); err == nil {
		t.Error("an origin that is none was accepted")
	}
}

func TestNotReady(t *testing.T) {
	h := api(t, &echo{}, Options{Ready: func(context.Context) error { return errors.New("store is opening") }})
	w := send(h, "GET /readyz", "")
	if w.Code != 503 || !strings.Contains(w.Body.String(), "store is opening") ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestPanic: a panic is a problem document, and the log has its stack.
func TestPanic(t *testing.T) {
	var log bytes.Buffer
	boom := func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) { panic("boom") }
	h := api(t, &echo{}, Options{Interceptor: boom, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w := send(h, "GET /v1/namespaces/ns/jobs/x", "")
	if w.Code != 500 || strings.Contains(w.Body.String(), "boom") || !strings.Contains(log.String(), "boom") {
		t.Errorf("%d %s; log %s", w.Code, w.Body, log.String())
	}
	if w := send(h, "GET /livez", ""); w.Code != 200 {
		t.Error("it does not live")
	}
}

// TestInterceptor: REST passes through the same interceptor as gRPC, under the same name of the call.
func TestInterceptor(t *testing.T) {
	var called string
	note := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		called = info.FullMethod
		return next(ctx, req)
	}
	send(api(t, &echo{}, Options{Interceptor: note}), "GET /v1/namespaces/ns/jobs/x", "")
	if called != pb.SchedulerService_GetJob_FullMethodName {
		t.Errorf("called %q", called)
	}
}

// TestCalled: each call is told with its name and gRPC's code, also one whose request cannot be read.
func TestCalled(t *testing.T) {
	var told []string
	h := api(t, &echo{}, Options{Called: func(api, method, code string, took time.Duration) {
		told = append(told, fmt.Sprint(api, " ", method, " ", code, " ", took >= 0))
	}})
	send(h, "GET /v1/namespaces/ns/jobs/x", "")
	send(h, "PUT /v1/namespaces/ns/jobs/x", "{")
	send(h, "GET /v1/nothing/there", "")
	if want := []string{"rest GetJob OK true", "rest PutJob InvalidArgument true"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
