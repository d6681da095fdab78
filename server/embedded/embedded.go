// Package embedded is the SDK for a scheduler inside the caller's process. Nothing listens.
//
//	import _ "github.com/carillonhq/carillon/server/store/pebble"
//
//	s, err := embedded.Open(ctx, "pebble:./data", embedded.Options{})
//	if err != nil { … }
//	defer s.Close(context.Background())
//	_, err = s.PutJob(ctx, carillon.Job{Name: "reminders/42", Due: carillon.In(time.Hour),
//		Target: carillon.WorkerQueue("reminders"), Data: carillon.JSON(Reminder{User: 42})})
//
// A [Scheduler] is used like a client of package client, and package worker runs handlers over either.
//
// # Stores
//
// A program imports the package of each store that it opens, as it would import a driver of database/sql, and
// links no other:
//
//	pebble:DIR                    a folder of this machine     server/store/pebble
//	postgres://user@host/jobs     a PostgreSQL database        server/store/postgres
//	redis://host/0, rediss://…    Redis, or a Redis Cluster    server/store/redis
//	memory:                       nothing is kept: for tests   server/store/memory
//
// A store is used by one embedded scheduler at a time. Opening a folder that another process has open fails.
// In PostgreSQL and Redis the scheduler holds a lease, as a node of a cluster does: while it is held, Open
// fails in every other process, and so does the start of a node (carillon serve). The other way round, Open
// fails while a node lives. If the process is killed, the next Open waits a few seconds for its lease to end.
// Between an embedded scheduler and nodes nobody waits: the start fails until the one that was killed counts
// as dead, 3 s at most. A process that was stopped for longer than that, or cut off from its store, may find
// that another one has taken its place: what it writes from then on is refused, and [Scheduler.Ready] says
// why. For several processes on one store, run nodes, and connect to them with package client.
package embedded

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
)

// Scheduler is a scheduler in this process.
type Scheduler struct {
	carillon.Scheduler
	node *server.Node
}

// Options of a scheduler. The zero value of a field is its default.
type Options struct {
	// Log gets what operators should know. Default: no log.
	Log *slog.Logger
	// AllowTargets are the private addresses that HTTP targets may reach. Default: none.
	AllowTargets []netip.Prefix
	// HTTPHostLimit is the most concurrent requests to one host. Default 128.
	HTTPHostLimit int
	// SigningSecrets sign the requests of a namespace's HTTP targets (Standard Webhooks), newest first; each
	// begins with "whsec_". Default: requests are not signed.
	SigningSecrets map[string][]string
	// Bounds are how large the parts of a job may be. Default [carillon.DefaultBounds].
	Bounds carillon.Bounds
	// WindowJobs is the most jobs in memory; others wait in the store until their time is near. Default
	// 100,000.
	WindowJobs int
	// Partitions is the number of partitions of a new store, fixed for its life. Default 64. As many as the
	// machine has cores are enough if the store never becomes that of a cluster.
	Partitions int
}

// Open opens the store of a URL, or creates it, and starts the scheduler. ctx bounds only that: the scheduler
// works until Close.
func Open(ctx context.Context, url string, o Options) (*Scheduler, error) {
	node, err := server.Start(ctx, server.Config{
		Store: url, Log: o.Log, Limits: o.Bounds, WindowJobs: o.WindowJobs, Partitions: o.Partitions,
		Targets: server.HTTPTargets{Allow: o.AllowTargets, HostLimit: o.HTTPHostLimit,
			SigningSecrets: o.SigningSecrets},
	})
	if err != nil {
		return nil, err
	}
	return &Scheduler{Scheduler: node.Scheduler(), node: node}, nil
}

// Queues shows what waits in queues and who serves them, and pauses, resumes and purges queues.
func (s *Scheduler) Queues() carillon.Queues { return s.node.Cluster() }

// Ready returns nil if the scheduler can serve, otherwise why not.
func (s *Scheduler) Ready() error { return s.node.Ready() }

// Metrics serves the scheduler's metrics to Prometheus.
func (s *Scheduler) Metrics() http.Handler { return s.node.Metrics().Handler() }

// Close starts no new attempts, tells workers to leave, waits until the attempts in force have ended or ctx
// is done, and closes the store. Attempts that are still in force then may report to the next scheduler of
// the store.
func (s *Scheduler) Close(ctx context.Context) error { return s.node.Close(ctx) }
