package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	sched "github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// wire is a connection that a test can cut.
type wire struct {
	mu   sync.Mutex
	conn net.Conn
}

func (w *wire) option() grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.conn = conn
		return conn, err
	})
}

// cut resets the connection, as a machine does that has lost its power and come back.
func (w *wire) cut(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	must(t, w.conn.(*net.TCPConn).SetLinger(0))
	must(t, w.conn.Close())
}

// jobs puts n one-shots that are due now.
func jobs(t *testing.T, c *client.Client, n int) {
	t.Helper()
	all := make([]sched.Job, n)
	for i := range all {
		all[i] = sched.Job{Name: fmt.Sprintf("job/%d", i), Target: sched.WorkerQueue(queue), Lease: 2 * time.Second}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := c.PutJobs(ctx, all)
	must(t, err)
}

// TestAWorkerIsCutOff resets the connection of a worker that has ten attempts, without a goodbye. Another one
// gets them when their leases end, as the next attempts of the same runs, and what the first one says then
// changes nothing.
func TestAWorkerIsCutOff(t *testing.T) {
	n := newNode(t, carillonBinary(t), "pebble:"+filepath.Join(t.TempDir(), "store"))
	up(t, n)
	var w wire
	broken := connect(t, dial(t, n, w.option()), "broken", 10)
	c := dial(t, n)
	jobs(t, c, 10)
	first := broken.runs(10)
	began := time.Now()
	w.cut(t)
	other := connect(t, c, "other", 10)
	second := other.runs(10)
	same(t, "runs that came again under their id", ids(second), ids(first))
	for _, r := range second {
		if r.Attempt != 2 {
			t.Errorf("attempt %d of %s, want 2", r.Attempt, r.Job)
		}
	}
	if waited := time.Since(began); waited < time.Second {
		t.Errorf("they came again after %v, although the worker might have come back within its leases", waited)
	}
	back := connect(t, dial(t, n), "broken", 0)
	back.succeed(first...)
	acks, stale := back.verdicts(10)
	same(t, "results of the first attempts that are stale", stale, tokens(first))
	same(t, "results of the first attempts that count", acks, nil)
	other.succeed(second...)
	acks, _ = other.verdicts(10)
	same(t, "results of the second attempts that count", acks, tokens(second))
	gone(t, c)
}

// TestTheNodeIsKilledWithAttemptsInForce kills a node that has handed out fifty attempts. Those that are
// reported to its next life count, under their old tokens, and do not run again; the others run again when
// their leases end.
func TestTheNodeIsKilledWithAttemptsInForce(t *testing.T) {
	const all, reported = 50, 25
	n := newNode(t, carillonBinary(t), "pebble:"+filepath.Join(t.TempDir(), "store"))
	up(t, n)
	c := dial(t, n)
	jobs(t, c, all)
	first := connect(t, c, "w", all).runs(all)
	inStore(t, c, all)
	must(t, n.Kill())
	up(t, n)
	w := connect(t, dial(t, n), "w", all)
	w.succeed(first[:reported]...)
	acks, stale := w.verdicts(reported)
	same(t, "results that count although the node was killed", acks, tokens(first[:reported]))
	same(t, "stale results", stale, nil)
	second := w.runs(all - reported)
	same(t, "runs that come again", ids(second), ids(first[reported:]))
	w.succeed(first[reported:]...)
	_, stale = w.verdicts(all - reported)
	same(t, "results of attempts that were given up", stale, tokens(first[reported:]))
	w.succeed(forged(second)...)
	_, stale = w.verdicts(all - reported)
	same(t, "made-up tokens", stale, tokens(forged(second)))
	w.succeed(second...)
	acks, _ = w.verdicts(all - reported)
	same(t, "results of the second attempts", acks, tokens(second))
	gone(t, c)
}

// inStore waits until n attempts are written down, about a second after they were handed out.
func inStore(t *testing.T, c *client.Client, n int) {
	t.Helper()
	running := sched.PhaseRunning
	eventually(t, c, sched.JobQuery{Phase: &running, PageSize: sched.MaxBatch}, n)
}

// gone waits until there is no job any more.
func gone(t *testing.T, c *client.Client) {
	t.Helper()
	eventually(t, c, sched.JobQuery{PageSize: sched.MaxBatch}, 0)
}

// eventually waits until a list has n jobs; nothing tells of it.
func eventually(t *testing.T, c *client.Client, q sched.JobQuery, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		page, err := c.ListJobs(ctx, q)
		must(t, err)
		if len(page.Jobs) == n {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d jobs are listed, want %d", len(page.Jobs), n)
		}
	}
}

// forged are the attempts with tokens that are not theirs.
func forged(runs []sched.Run) []sched.Run {
	out := make([]sched.Run, len(runs))
	for i, r := range runs {
		r.Token = chaos.Forge(r.Token)
		out[i] = r
	}
	return out
}

// desk is a node of which a worker sees its session alone: the test says what comes, and hears what the
// worker says.
type desk struct {
	sched.Scheduler
	say   chan sched.WorkResponse
	heard chan sched.WorkRequest
}

func (d *desk) Connect(context.Context, sched.Hello) (sched.Session, error) { return d, nil }

func (d *desk) Send(ctx context.Context, req sched.WorkRequest) error {
	select {
	case d.heard <- req:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *desk) Receive(ctx context.Context) (sched.WorkResponse, error) {
	select {
	case msg := <-d.say:
		return msg, nil
	case <-ctx.Done():
		return sched.WorkResponse{}, ctx.Err()
	}
}

func (d *desk) Close() error { return nil }

// worker runs a worker of the campaigns, which behaves well, on the desk until the test ends.
func (d *desk) worker(t *testing.T, out io.Writer) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := grpcapi.NewServer(grpcapi.NewService(d, grpcapi.Options{}))
	served, worked := make(chan error, 1), make(chan struct{})
	go func() { served <- server.Serve(listener) }()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() {
		stop()
		<-worked
		server.Stop()
		must(t, <-served)
	})
	go func() {
		defer close(worked)
		spec := chaos.WorkerSpec{Name: "w", Address: listener.Addr().String(), Seed: 1}
		chaos.Work(ctx, spec, strings.NewReader(""), out)
	}()
}

// hears is the next thing that the worker says.
func (d *desk) hears(t *testing.T) sched.WorkRequest {
	t.Helper()
	select {
	case req := <-d.heard:
		return req
	case <-time.After(patience):
		t.Fatal("the worker says nothing")
		return sched.WorkRequest{}
	}
}

// begins is a run for the worker, which has just connected.
func (d *desk) begins(t *testing.T) sched.Run {
	t.Helper()
	var first sched.WorkRequest
	for len(first.Credits) == 0 {
		first = d.hears(t)
	}
	now := time.Now()
	return sched.Run{ID: "r", Namespace: "default", Job: "j", Queue: first.Credits[0].Queue,
		Token: "token", Attempt: 1, Scheduled: now, Due: now, Started: now, Lease: time.Minute}
}

// TestAWorkerOfTheCampaignsAnswersOnce hands it an attempt in doubt again while it works on it, and once more
// while its result waits for an answer. An answer names a token: of two results nobody could say which is
// meant.
func TestAWorkerOfTheCampaignsAnswersOnce(t *testing.T) {
	d := &desk{say: make(chan sched.WorkResponse), heard: make(chan sched.WorkRequest)}
	d.worker(t, io.Discard)
	run := d.begins(t)
	results, credits := 0, 0
	take := func(most int) {
		for credits < most {
			req := d.hears(t)
			results += len(req.Results)
			for _, c := range req.Credits {
				credits += c.N
			}
		}
	}
	d.say <- sched.WorkResponse{Runs: []sched.Run{run, run}}
	take(2)
	d.say <- sched.WorkResponse{Runs: []sched.Run{run}}
	take(3)
	if results != 1 {
		t.Errorf("it said %d results of one attempt", results)
	}
}

// TestARefusalMayBeOfABeat that a worker had said before its result: the answer to that comes after it.
func TestARefusalMayBeOfABeat(t *testing.T) {
	d := &desk{say: make(chan sched.WorkResponse), heard: make(chan sched.WorkRequest)}
	r, w := io.Pipe()
	d.worker(t, w)
	t.Cleanup(func() { must(t, r.Close()) }) // before the worker is waited for: nobody reads any more
	told := make(chan checker.ResultVerdict, 9)
	go func() {
		defer close(told)
		for lines := json.NewDecoder(r); ; {
			var line struct{ Told checker.ResultVerdict }
			if lines.Decode(&line) != nil {
				return
			}
			if line.Told != "" {
				told <- line.Told
			}
		}
	}()
	run := d.begins(t)
	d.say <- sched.WorkResponse{Runs: []sched.Run{run}}
	for len(d.hears(t).Results) == 0 {
		continue
	}
	d.say <- sched.WorkResponse{Stale: []string{run.Token}}
	d.say <- sched.WorkResponse{Acks: []string{run.Token}}
	for _, want := range []checker.ResultVerdict{checker.Stale, checker.Acked} {
		select {
		case got := <-told:
			if got != want {
				t.Errorf("it noted %q, want %q", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("it did not note %q", want)
		}
	}
}
