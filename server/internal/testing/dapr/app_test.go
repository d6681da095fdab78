package dapr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dapr/durabletask-go/workflow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// app is the app beside a sidecar, or beside several. It notes what comes to it.
type app struct {
	id   string
	port int

	mu    sync.Mutex
	came  map[string][]time.Time // by path: a job's is /job/NAME
	first map[string]string      // the body that came first
	deny  map[string]int         // how many requests are answered with 500, by path
}

// actorType is what the app hosts.
const actorType = "clock"

// newApp starts an app, which ends with the test.
func newApp(t *testing.T, id string) *app {
	t.Helper()
	a := &app{id: id, came: map[string][]time.Time{}, first: map[string]string{}, deny: map[string]int{}}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a.port = listener.Addr().(*net.TCPAddr).Port
	server := &http.Server{Handler: a, ReadHeaderTimeout: patience}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close() // Serve says how it ended
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return a
}

// ServeHTTP implements http.Handler.
func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/dapr/config" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"entities": [%q]}`, actorType) // a sidecar that is gone asks again
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if !strings.HasPrefix(r.URL.Path, "/job/") && !strings.Contains(r.URL.Path, "/remind/") {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.came[r.URL.Path] = append(a.came[r.URL.Path], time.Now())
	if len(a.came[r.URL.Path]) == 1 {
		a.first[r.URL.Path] = string(body)
	}
	if a.deny[r.URL.Path] > 0 {
		a.deny[r.URL.Path]--
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// times returns when a path was called.
func (a *app) times(path string) []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]time.Time(nil), a.came[path]...)
}

// all returns when each path was called.
func (a *app) all() map[string][]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.came)
}

// body returns what came with the first call of a path.
func (a *app) body(path string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.first[path]
}

// refuse has the next n calls of a path fail.
func (a *app) refuse(path string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deny[path] = n
}

// calls waits until a path was called n times.
func (a *app) calls(t *testing.T, path string, n int) {
	t.Helper()
	eventually(t, path, func() error {
		if got := len(a.times(path)); got < n {
			return fmt.Errorf("%d calls, want %d", got, n)
		}
		return nil
	})
}

// more waits until n more paths were called.
func (a *app) more(t *testing.T, n int) {
	t.Helper()
	before := len(a.all())
	eventually(t, "jobs come", func() error {
		if more := len(a.all()) - before; more < n {
			return fmt.Errorf("%d more, want %d", more, n)
		}
		return nil
	})
}

// job is the body of a put.
type job struct {
	Schedule  string `json:"schedule,omitempty"`
	DueTime   string `json:"dueTime,omitempty"`
	Repeats   int    `json:"repeats,omitempty"`
	TTL       string `json:"ttl,omitempty"`
	Data      any    `json:"data,omitempty"`
	Overwrite bool   `json:"overwrite,omitempty"`
}

// put schedules a job.
func (s *sidecar) put(ctx context.Context, name string, j job) error {
	body, err := json.Marshal(j)
	if err != nil {
		return err
	}
	_, err = s.call(ctx, http.MethodPost, "/v1.0-alpha1/jobs/"+name, string(body))
	return err
}

// workflows connects to the workflow engine of the sidecar. A registry has it work.
func (s *sidecar) workflows(t *testing.T, r *workflow.Registry) *workflow.Client {
	t.Helper()
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		stop()
		_ = conn.Close() // nothing is waited for any more
	})
	c := workflow.NewClient(conn)
	if r != nil {
		if err := c.StartWorker(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
