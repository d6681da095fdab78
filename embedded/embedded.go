// Package embedded is the SDK for a scheduler inside the caller's process: jobs are kept in a folder, and
// nothing listens.
//
//	s, err := embedded.Open("./data")
//	if err != nil { … }
//	defer s.Close(context.Background())
//	_, err = s.PutJob(ctx, carillon.Job{Name: "reminders/42", Due: carillon.In(time.Hour),
//		Target: carillon.WorkerQueue("reminders"), Data: carillon.JSON(Reminder{User: 42})})
//
// A [Scheduler] is used like a client of package client, and package worker runs handlers over either. A
// folder is used by one process at a time.
package embedded

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/server"
)

// Scheduler is a scheduler in this process.
type Scheduler struct {
	carillon.Scheduler
	node *server.Node
}

// Option changes how a scheduler works.
type Option func(*server.Config)

// WithLog tells log what a person should know. Default: nothing is told.
func WithLog(log *slog.Logger) Option { return func(c *server.Config) { c.Log = log } }

// WithAllowTargets lets HTTP targets reach private addresses. Default: public ones only.
func WithAllowTargets(networks ...netip.Prefix) Option {
	return func(c *server.Config) { c.Targets.Allow = append(c.Targets.Allow, networks...) }
}

// WithHTTPHostLimit is the most requests to one host at a time. Default 128.
func WithHTTPHostLimit(n int) Option { return func(c *server.Config) { c.Targets.HostLimit = n } }

// WithSigningSecrets signs the requests of a namespace's HTTP targets as Standard Webhooks say; the secrets,
// newest first, begin with "whsec_". Default: requests are not signed.
func WithSigningSecrets(namespace string, secrets ...string) Option {
	return func(c *server.Config) {
		if c.Targets.SigningSecrets == nil {
			c.Targets.SigningSecrets = map[string][]string{}
		}
		c.Targets.SigningSecrets[namespace] = append(c.Targets.SigningSecrets[namespace], secrets...)
	}
}

// WithLimits bounds what a job may hold. Default [carillon.DefaultBounds].
func WithLimits(l carillon.Bounds) Option { return func(c *server.Config) { c.Limits = l } }

// WithWindowJobs is the most jobs in memory. Default 100,000; the others wait in the store for their time to
// come near.
func WithWindowJobs(n int) Option { return func(c *server.Config) { c.WindowJobs = n } }

// WithPartitions is the number of partitions of a new folder, which it keeps for ever. Default 64; an
// embedded scheduler that never becomes a cluster does well with as many as the machine has cores.
func WithPartitions(n int) Option { return func(c *server.Config) { c.Partitions = n } }

// Open opens the scheduler of a folder, or makes one there. It works until Close.
func Open(dir string, opts ...Option) (*Scheduler, error) { return start("pebble:"+dir, opts) }

// OpenMemory opens a scheduler that keeps its jobs in memory only: for tests.
func OpenMemory(opts ...Option) (*Scheduler, error) { return start("memory:", opts) }

func start(url string, opts []Option) (*Scheduler, error) {
	c := server.Config{Store: url}
	for _, f := range opts {
		f(&c)
	}
	node, err := server.Start(context.Background(), c)
	if err != nil {
		return nil, err
	}
	return &Scheduler{Scheduler: node.Scheduler(), node: node}, nil
}

// Ready is nil if the scheduler can serve, otherwise it says why not.
func (s *Scheduler) Ready() error { return s.node.Ready() }

// Metrics serves the scheduler's metrics to Prometheus.
func (s *Scheduler) Metrics() http.Handler { return s.node.Metrics().Handler() }

// Close hands out nothing new, tells workers to leave, waits until the attempts in force have ended or ctx is
// done, and closes the folder. Attempts that were still in force may report to the next scheduler that opens
// it.
func (s *Scheduler) Close(ctx context.Context) error { return s.node.Close(ctx) }
