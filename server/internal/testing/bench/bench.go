package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
)

// Conn is a connection to a node.
type Conn interface {
	carillon.Scheduler
	Close() error
}

// Node is what is put under load.
type Node struct {
	// Connect opens a connection. It is called several times, so that one connection's limits do not count.
	Connect func() (Conn, error)
	// Throwaway says that the node is there for this bench only: nothing is removed from it afterwards.
	Throwaway bool
	// PID is the process to account CPU time and memory to; 0 = none.
	PID int
	// Others are the processes of further nodes of the same cluster, and what else is to be accounted to it.
	Others []int
	// HTTP is the address of its metrics, and Debug that of its profiles; "" = not known, or there are none.
	HTTP, Debug string
}

// Config is what all benches share.
type Config struct {
	Node        Node
	Namespace   string // default "default"
	Connections int    // default 4
	Profiles    string // folder to write profiles of what is measured to; "" = none are taken
	Watchers    int    // that watch all events meanwhile
	// Progress is told now and then how far a stage is; nil = nobody asks.
	Progress func(stage string, done, total int64)
}

// Bench runs benches against one node.
type Bench struct {
	cfg      Config
	conns    []Conn
	watching context.CancelFunc
	watchers sync.WaitGroup
	told     atomic.Int64 // events, to all watchers
}

// Open connects to the node.
func Open(cfg Config) (*Bench, error) {
	if cfg.Namespace == "" {
		cfg.Namespace = carillon.DefaultNamespace
	}
	if cfg.Connections <= 0 {
		cfg.Connections = 4
	}
	b := &Bench{cfg: cfg}
	for range cfg.Connections {
		c, err := cfg.Node.Connect()
		if err != nil {
			b.Close()
			return nil, err
		}
		b.conns = append(b.conns, c)
	}
	if err := b.startWatchers(); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// startWatchers has all events watched, and returns once they are.
func (b *Bench) startWatchers() error {
	ctx, cancel := context.WithCancel(context.Background())
	b.watching = cancel
	begun := make(chan error, b.cfg.Watchers) // each sends once
	for i := range b.cfg.Watchers {
		var once sync.Once
		b.watchers.Go(func() {
			err := b.conn(i).Watch(ctx, carillon.WatchQuery{}, func(batch carillon.EventBatch) error {
				b.told.Add(int64(len(batch.Events)))
				once.Do(func() { begun <- nil })
				return nil
			})
			once.Do(func() { begun <- err })
		})
	}
	for range b.cfg.Watchers {
		if err := <-begun; err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	return nil
}

// Close closes the connections.
func (b *Bench) Close() {
	if b.watching != nil {
		b.watching()
	}
	b.watchers.Wait()
	for _, c := range b.conns {
		_ = c.Close() // the results are in
	}
}

// conn is the connection of the i-th caller.
func (b *Bench) conn(i int) Conn { return b.conns[i%len(b.conns)] }

// progress says how far a stage is.
func (b *Bench) progress(stage string, done, total int64) {
	if b.cfg.Progress != nil {
		b.cfg.Progress(stage, done, total)
	}
}

// watch reports how far a stage is until the returned function is called.
func (b *Bench) watch(stage string, total int64, done func() int64) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				b.progress(stage, done(), total)
			}
		}
	}()
	return cancel
}

// newPrefix is a prefix of job names that nobody else uses.
func newPrefix() string { return "bench/" + strings.ToLower(rand.Text()[:10]) + "/" }

// clean removes what a bench has left on the node. If that fails the result says so: it is no less true.
func (b *Bench) clean(ctx context.Context, prefix string, r *Result) {
	if b.cfg.Watchers > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d watchers were told of %d events so far", b.cfg.Watchers,
			b.told.Load()))
	}
	if b.cfg.Node.Throwaway {
		return
	}
	b.progress("cleaning up", 0, 0)
	if _, err := b.conn(0).DeleteJobs(ctx, b.cfg.Namespace, prefix); err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("jobs named %s… are left on the node: %s", prefix, err))
	}
}

// Result is what a bench found.
type Result struct {
	Bench      string     `json:"bench"`
	Parameters string     `json:"parameters"`
	Operations int64      `json:"operations"`
	Seconds    float64    `json:"seconds"`
	Rate       float64    `json:"rate"`                   // operations a second
	Latency    *Quantiles `json:"latency_ms,omitempty"`   // of calls
	Lateness   *Quantiles `json:"lateness_ms,omitempty"`  // of runs: received - due
	Span       float64    `json:"span_seconds,omitempty"` // first run to last
	CPU        float64    `json:"server_cpu_us_per_operation,omitempty"`
	Client     float64    `json:"client_cpu_us_per_operation,omitempty"` // of the load generator
	Idle       *float64   `json:"server_idle_cpu_share,omitempty"`       // of one core
	Stalls     *Stalls    `json:"stalls,omitempty"`
	Phases     *Phases    `json:"takeover,omitempty"`
	RSS        int64      `json:"server_rss_bytes,omitempty"`
	Files      int64      `json:"server_rss_file_bytes,omitempty"` // of RSS: pages of the program's file
	Ledger     *Verdict   `json:"ledger,omitempty"`
	Notes      []string   `json:"notes,omitempty"`
}

// OK reports whether the ledger, if there is one, is clean.
func (r *Result) OK() bool { return r.Ledger == nil || r.Ledger.Clean() }

// took sets what follows from the number of operations and the time they took.
func (r *Result) took(d time.Duration) {
	r.Seconds = d.Seconds()
	if d > 0 {
		r.Rate = float64(r.Operations) / d.Seconds()
	}
}
