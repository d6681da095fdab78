package chaos_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	sched "github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/chaos"
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

// TestAWorkerIsCutOff resets the connection of a worker that has ten attempts, without a goodbye. Another one gets them when
// their leases end, as the next attempts of the same runs, and what the first one says then changes nothing.
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

// TestTheNodeIsKilledWithAttemptsInForce kills a node that has handed out fifty attempts. Those that are reported to its next
// life count, under their old tokens, and do not run again; the others run again when their leases end.
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
