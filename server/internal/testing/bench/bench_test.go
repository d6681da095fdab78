package bench

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// crooked is a node that keeps jobs in a map and delivers them in its own way. Calls that no bench makes are
// nil.
type crooked struct {
	carillon.Scheduler
	deliver func(jobs []carillon.Job) []carillon.Run // what becomes of the jobs that were put
	early   time.Duration

	mu       sync.Mutex
	jobs     []carillon.Job
	sessions []*crookedSession
}

func (c *crooked) Close() error { return nil }

func (c *crooked) PutJobs(_ context.Context, jobs []carillon.Job) ([]carillon.PutResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = append(c.jobs, jobs...)
	due, err := time.Parse(time.RFC3339Nano, jobs[0].Due.String())
	if err != nil {
		return nil, err
	}
	time.AfterFunc(time.Until(due)-c.early, c.fire)
	return nil, nil
}

func (c *crooked) ListJobs(context.Context, carillon.JobQuery) (carillon.JobPage, error) {
	return carillon.JobPage{}, nil
}

func (c *crooked) DeleteJobs(context.Context, string, string) (int, error) { return 0, nil }

func (c *crooked) Connect(context.Context, carillon.Hello) (carillon.Session, error) {
	s := &crookedSession{node: c, out: make(chan carillon.WorkResponse, 16), closed: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions = append(c.sessions, s)
	return s, nil
}

// fire delivers what was put, through the first session.
func (c *crooked) fire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions[0].out <- carillon.WorkResponse{Runs: c.deliver(c.jobs)}
}

type crookedSession struct {
	node *crooked
	out  chan carillon.WorkResponse

	closed chan struct{}
}

// Send acknowledges every result at once.
func (s *crookedSession) Send(_ context.Context, req carillon.WorkRequest) error {
	if len(req.Results) > 0 {
		s.out <- carillon.WorkResponse{Acks: make([]string, len(req.Results))}
	}
	return nil
}

func (s *crookedSession) Receive(ctx context.Context) (carillon.WorkResponse, error) {
	select {
	case r := <-s.out:
		return r, nil
	case <-s.closed:
		return carillon.WorkResponse{}, io.EOF
	case <-ctx.Done():
		return carillon.WorkResponse{}, ctx.Err()
	}
}

func (s *crookedSession) Close() error {
	close(s.closed)
	return nil
}

// runsOf delivers each job once.
func runsOf(jobs []carillon.Job) []carillon.Run {
	var runs []carillon.Run
	for _, j := range jobs {
		runs = append(runs, carillon.Run{Job: j.Name, Attempt: 1})
	}
	return runs
}

// TestBenchFindsWhatIsWrong runs a bench against nodes that deliver wrongly: its verdict must say so.
func TestBenchFindsWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		deliver func([]carillon.Job) []carillon.Run
		early   time.Duration
		wrong   func(*Verdict) int64 // nil: nothing
	}{
		"honest": {deliver: runsOf},
		"early":  {deliver: runsOf, early: 50 * time.Millisecond, wrong: func(v *Verdict) int64 { return v.Early }},
		"doubles": {
			deliver: func(jobs []carillon.Job) []carillon.Run { return slices.Concat(runsOf(jobs), runsOf(jobs[:1])) },
			wrong:   func(v *Verdict) int64 { return v.Doubled },
		},
		"swaps one for another": {
			deliver: func(jobs []carillon.Job) []carillon.Run {
				runs := runsOf(jobs)
				runs[0].Job = "not/ours"
				return runs
			},
			wrong: func(v *Verdict) int64 { return v.Missing * v.Unknown },
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := &crooked{deliver: c.deliver, early: c.early}
			b, err := Open(Config{Node: Node{Connect: func() (Conn, error) { return node, nil }}, Connections: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			r, err := Herd{Jobs: 5, Workers: 1, Lead: 200 * time.Millisecond}.Run(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			if r.OK() != (c.wrong == nil) {
				t.Errorf("verdict: %s", r.Ledger)
			}
			if c.wrong != nil && c.wrong(r.Ledger) == 0 {
				t.Errorf("the verdict names something else: %s", r.Ledger)
			}
		})
	}
}
