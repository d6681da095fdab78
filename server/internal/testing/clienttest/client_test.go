package clienttest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/server"
	_ "github.com/carillonhq/carillon/server/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a network of one server, inside the process.
type wire struct {
	*bufconn.Listener
	down atomic.Bool
}

func newWire() *wire { return &wire{Listener: bufconn.Listen(1 << 20)} }

// dial makes a client that connects through the wire.
func (w *wire) dial(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.Dial("passthrough:///node",
		client.WithDialOptions(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			if w.down.Load() {
				return nil, errors.New("no route")
			}
			return w.DialContext(ctx)
		})))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// node is a scheduler behind a wire, until the test ends.
func node(t *testing.T) (*wire, *client.Client) {
	t.Helper()
	n, err := server.Start(t.Context(), server.Config{Store: "memory:", Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return serve(t, n.Scheduler())
}

// job is one of a bulk load.
func job(i int) carillon.Job {
	return carillon.Job{Name: fmt.Sprintf("bulk/%04d", i), Due: carillon.In(time.Hour),
		Target: carillon.WorkerQueue("q"), Data: carillon.JSON(i)}
}

func TestPutStreamStoresAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := node(t)
		const n = 1500
		load := func(yield func(carillon.Job) bool) {
			for i := range n {
				if !yield(job(i)) {
					return
				}
			}
		}
		loaded, err := c.PutStream(t.Context(), load)
		if err != nil || loaded.Stored != n || loaded.Created != n || loaded.Changed != n {
			t.Fatalf("loaded: %+v, %v", loaded, err)
		}
		var names int
		q := carillon.JobQuery{Prefix: "bulk/", PageSize: carillon.MaxBatch}
		for {
			page, err := c.ListJobs(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			names += len(page.Jobs)
			if q.PageToken = page.NextPageToken; q.PageToken == "" {
				break
			}
		}
		if names != n {
			t.Errorf("%d of %d are there", names, n)
		}
	})
}

func TestPutStreamSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		change func(j *carillon.Job)
		field  string
		stored int
	}{
		"seen by the server": {func(j *carillon.Job) { j.Schedule = "nonsense" }, "jobs[44].schedule", 256},
		"not to be sent":     {func(j *carillon.Job) { j.TimeZone = "caf\xe9" }, "jobs[300].time_zone", 0},
		"seen here":          {func(j *carillon.Job) { j.Data = carillon.JSON(func() {}) }, "jobs[300].data", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, cl := node(t)
				_, err := cl.PutStream(t.Context(), func(yield func(carillon.Job) bool) {
					for i := range 10_000 {
						j := job(i)
						if i == 300 {
							c.change(&j)
						}
						if !yield(j) {
							return
						}
					}
				})
				e, ok := errors.AsType[*carillon.Error](err)
				if !ok || e.Kind != carillon.InvalidArgument || e.Field != c.field {
					t.Fatalf("error: %#v", err)
				}
				if want := fmt.Sprintf("the %d jobs", c.stored); c.stored > 0 && !strings.Contains(e.Message, want) {
					t.Errorf("it does not say %q: %s", want, e.Message)
				}
			})
		})
	}
}

func TestPreview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := node(t)
		from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		times, err := c.Preview(t.Context(),
			carillon.PreviewQuery{Schedule: "0 2 * * *", TimeZone: "Europe/London", From: from, Count: 2})
		if err != nil || len(times) != 2 || !times[0].Equal(from.Add(2*time.Hour)) {
			t.Errorf("times: %v, %v", times, err)
		}
		_, err = c.Preview(t.Context(), carillon.PreviewQuery{Schedule: "never"})
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Field != "schedule" {
			t.Errorf("error: %v", err)
		}
	})
}

func TestACallWaitsForANodeThatRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := node(t)
		w.down.Store(true)
		time.AfterFunc(time.Second, func() { w.down.Store(false) })
		if _, err := c.PutJob(t.Context(), job(1)); err != nil {
			t.Errorf("put: %v", err)
		}
	})
}

func TestACallThatWasNotSentChangedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		w.down.Store(true)
		c := w.dial(t)
		began := time.Now()
		_, err := c.PutJob(t.Context(), job(1))
		e, ok := errors.AsType[*carillon.Error](err)
		if !ok || e.Kind != carillon.Unavailable || e.Unknown || time.Since(began) > 10*time.Second {
			t.Errorf("after %v: %#v", time.Since(began), err)
		}
		if _, err := c.Connect(t.Context(), carillon.Hello{Queues: []string{"q"}}); !errors.Is(err, carillon.Unavailable) {
			t.Errorf("connect: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// dying is a service whose server breaks down in the middle of a call.
type dying struct {
	pb.UnimplementedSchedulerServiceServer
	server *grpc.Server
	calls  atomic.Int32
}

// PutJob implements the rpc.
func (d *dying) PutJob(ctx context.Context, _ *pb.PutJobRequest) (*pb.PutJobResponse, error) {
	d.calls.Add(1)
	go d.server.Stop()
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestACallThatLostItsAnswerIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		d := &dying{server: grpc.NewServer()}
		pb.RegisterSchedulerServiceServer(d.server, d)
		served := make(chan error, 1)
		go func() { served <- d.server.Serve(w) }()
		c := w.dial(t)
		_, err := c.PutJob(t.Context(), job(1))
		e, ok := errors.AsType[*carillon.Error](err)
		if !ok || e.Kind != carillon.Unavailable || !e.Unknown || d.calls.Load() != 1 {
			t.Errorf("%d calls: %#v", d.calls.Load(), err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// TestAReadLeavesNothingOpen: whatever became of it, nothing was changed; what changes something may have
// been done.
func TestAReadLeavesNothingOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			<-stream.Context().Done()
			return stream.Context().Err()
		}))
		served := make(chan error, 1)
		go func() { served <- s.Serve(w) }()
		c, k := w.dial(t), carillon.Key{Namespace: "ns", Name: "a"}
		for name, call := range map[string]func(ctx context.Context) error{
			"get job": func(ctx context.Context) error { _, err := c.GetJob(ctx, k); return err },
			"list jobs": func(ctx context.Context) error {
				_, err := c.ListJobs(ctx, carillon.JobQuery{})
				return err
			},
			"get run": func(ctx context.Context) error { _, err := c.GetRun(ctx, "ns", "r"); return err },
			"list runs": func(ctx context.Context) error {
				_, err := c.ListRuns(ctx, carillon.RunQuery{})
				return err
			},
			"get backfill": func(ctx context.Context) error { _, err := c.GetBackfill(ctx, "ns", "b"); return err },
			"list times": func(ctx context.Context) error {
				_, err := c.ListTimes(ctx, carillon.TimesQuery{Key: k})
				return err
			},
			"list backfills": func(ctx context.Context) error { _, err := c.ListBackfills(ctx, k); return err },
			"get namespace":  func(ctx context.Context) error { _, err := c.GetNamespace(ctx, "ns"); return err },
			"preview": func(ctx context.Context) error {
				_, err := c.Preview(ctx, carillon.PreviewQuery{})
				return err
			},
			"status": func(ctx context.Context) error { _, err := c.ClusterStatus(ctx); return err },
			"put":    func(ctx context.Context) error { _, err := c.PutJob(ctx, job(1)); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := call(ctx)
			cancel()
			e, ok := errors.AsType[*carillon.Error](err)
			if !ok || e.Kind != carillon.DeadlineExceeded || e.Unknown != (name == "put") {
				t.Errorf("%s: %#v", name, err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestADeadlineIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire() // nobody listens: connecting hangs
		c := w.dial(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := c.GetJob(ctx, carillon.Key{Namespace: "default", Name: "a"}); !errors.Is(err,
			carillon.DeadlineExceeded) || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}
