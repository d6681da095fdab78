package chaos_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	sched "github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
)

// patience is how long something may take that should happen soon.
const patience = 30 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newNode makes a node that ends with the test.
func newNode(t *testing.T, binary, store string, flags ...string) *chaos.Node {
	t.Helper()
	n, err := chaos.NewNode(binary, store, flags...)
	must(t, err)
	t.Cleanup(func() { must(t, n.Kill()) })
	return n
}

// up starts a node.
func up(t *testing.T, n *chaos.Node) {
	t.Helper()
	must(t, n.Start())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, n.Ready(ctx))
}

func dial(t *testing.T, n *chaos.Node, opts ...grpc.DialOption) *client.Client {
	t.Helper()
	c, err := client.Dial(n.GRPC, client.WithDialOptions(opts...))
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// until waits for an answer of the HTTP listener.
func until(t *testing.T, n *chaos.Node, path string, wanted func(body string, err error) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, n.Until(ctx, path, wanted))
}

// hand is a worker's session, used by hand.
type hand struct {
	t       *testing.T
	session sched.Session
}

const queue = "q"

// connect opens a session with room for n attempts.
func connect(t *testing.T, c *client.Client, id string, n int) hand {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := c.Connect(ctx, sched.Hello{Queues: []string{queue}, WorkerID: id})
	must(t, err)
	h := hand{t, s}
	if n > 0 {
		h.send(sched.WorkRequest{Credits: []sched.Credit{{Queue: queue, N: n}}})
	}
	return h
}

func (h hand) send(req sched.WorkRequest) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	must(h.t, h.session.Send(ctx, req))
}

// succeed says that attempts have succeeded.
func (h hand) succeed(runs ...sched.Run) {
	h.t.Helper()
	var req sched.WorkRequest
	for _, r := range runs {
		req.Results = append(req.Results, sched.Result{Token: r.Token, RunID: r.ID, Outcome: sched.OutcomeSuccess})
	}
	h.send(req)
}

// hear is what came until it is enough.
func (h hand) hear(enough func(all sched.WorkResponse) bool) (all sched.WorkResponse) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	for !enough(all) {
		msg, err := h.session.Receive(ctx)
		if err != nil {
			h.t.Fatalf("receive: %v; so far %d runs, %d acks, %d stale", err, len(all.Runs),
				len(all.Acks), len(all.Stale))
		}
		all.Runs, all.Acks, all.Stale = append(all.Runs, msg.Runs...), append(all.Acks,
			msg.Acks...), append(all.Stale, msg.Stale...)
	}
	return all
}

func (h hand) runs(n int) []sched.Run {
	h.t.Helper()
	return h.hear(func(all sched.WorkResponse) bool { return len(all.Runs) >= n }).Runs
}

// verdicts are what is said to n results.
func (h hand) verdicts(n int) (acks, stale []string) {
	h.t.Helper()
	all := h.hear(func(all sched.WorkResponse) bool { return len(all.Acks)+len(all.Stale) >= n })
	return all.Acks, all.Stale
}

func tokens(runs []sched.Run) []string {
	out := make([]string, len(runs))
	for i := range runs {
		out[i] = runs[i].Token
	}
	slices.Sort(out)
	return out
}

func ids(runs []sched.Run) []string {
	out := make([]string, len(runs))
	for i := range runs {
		out[i] = runs[i].ID
	}
	slices.Sort(out)
	return out
}

// same fails if two sets of words differ.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	got = slices.Sorted(slices.Values(got))
	if !slices.Equal(got, want) {
		t.Errorf("%s: %d of %d", what, len(got), len(want))
	}
}
