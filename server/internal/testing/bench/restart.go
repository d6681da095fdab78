package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
)

// Restart measures what a node does with many jobs that are due far in the future: its memory, and how long
// after kill -9 and a new start the first run is received.
type Restart struct {
	Jobs int           // default 100,000
	Idle time.Duration // how long to watch what an idle node costs; default 5 s
	// Server is the node's process; Dial connects to it.
	Server *Server
	Dial   func(address string) (Conn, error)
}

// Run measures. The jobs stay on the node: removing millions would take longer than the bench.
func (r Restart) Run(ctx context.Context, cfg Config) (Result, error) {
	if r.Jobs <= 0 {
		r.Jobs = 100_000
	}
	if r.Idle <= 0 {
		r.Idle = 5 * time.Second
	}
	prefix := newPrefix()
	loaded, err := r.load(ctx, cfg, prefix)
	if err != nil {
		return Result{}, err
	}
	if err := r.Server.Kill(); err != nil {
		return Result{}, err
	}
	res := Result{Bench: "restart", Operations: 1,
		Parameters: fmt.Sprintf("%d jobs due next year, kill -9, start, first run", r.Jobs)}
	res.Notes = append(res.Notes, fmt.Sprintf("resident after loading: %d MiB", loaded>>20))
	killed := time.Now()
	if err := r.Server.Start(ctx); err != nil {
		return res, err
	}
	res.Notes = append(res.Notes, fmt.Sprintf("ready after %d ms", time.Since(killed).Milliseconds()))
	if err := r.firstRun(ctx, cfg, prefix); err != nil {
		return res, err
	}
	res.took(time.Since(killed))
	res.Rate = 0
	err = r.idle(ctx, cfg, &res)
	return res, err
}

// settling is how long the window takes to load and the heap to settle, at most.
const settling = 2 * time.Second

// idle watches what the node costs while nothing is due.
func (r Restart) idle(ctx context.Context, cfg Config, res *Result) error {
	if err := pause(ctx, settling); err != nil {
		return err
	}
	cfg.Node = r.Server.Node(r.Dial)
	b := &Bench{cfg: cfg} // without connections: they would not be idle
	defer b.watch("watching the idle node", 0, func() int64 { return 0 })()
	w, err := b.begin(ctx, res.Bench)
	if err != nil {
		return err
	}
	defer w.close()
	if err := pause(ctx, r.Idle); err != nil {
		return err
	}
	share := w.server.cpu().Seconds() / r.Idle.Seconds()
	res.Idle = &share
	err = w.end(res)
	res.CPU, res.Client = 0, 0 // there are no operations
	return err
}

// load puts the jobs, and one that is due at once and that nobody takes yet; it returns the node's memory.
func (r Restart) load(ctx context.Context, cfg Config, prefix string) (rss int64, err error) {
	b, err := r.open(cfg)
	if err != nil {
		return 0, err
	}
	defer b.Close()
	if err := b.preloadFar(ctx, prefix, r.Jobs); err != nil {
		return 0, err
	}
	_, err = b.conn(0).PutJob(ctx, carillon.Job{Namespace: b.cfg.Namespace, Name: prefix + "due",
		Target: carillon.WorkerQueue(prefix)})
	rss, _ = startMeter(b.cfg.Node.PID).rss()
	return rss, err
}

// open connects to the node.
func (r Restart) open(cfg Config) (*Bench, error) {
	cfg.Node = r.Server.Node(r.Dial)
	return Open(cfg)
}

// firstRun receives the run that was due when the node was killed.
func (r Restart) firstRun(ctx context.Context, cfg Config, prefix string) error {
	b, err := r.open(cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	var got arrivals
	work, err := b.consume(ctx, prefix, workerOptions{Workers: 1}.withDefaults(), &got)
	if err != nil {
		return err
	}
	if !until(ctx, time.Minute, func() bool { return got.n.Load() > 0 }) {
		return fmt.Errorf("no run within a minute of the start")
	}
	return work.close()
}

// arrivals counts runs.
type arrivals struct{ n atomic.Int64 }

func (a *arrivals) receive(*carillon.Run, time.Time) (time.Duration, bool) {
	a.n.Add(1)
	return 0, false
}
