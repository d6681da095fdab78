// Package embedded is the SDK for a scheduler inside the caller's process. Nothing listens, unless
// [Options.Cluster] asks for it.
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
// A store is used by one embedded scheduler at a time, unless all of them say [Options.Cluster]. Opening a
// folder that another process has open fails. In PostgreSQL and Redis the scheduler holds a lease, as a
// node of a cluster does: while it is held, Open fails in every other process, and so does the start of a
// node (carillon serve). The other way round, Open fails while a node lives. If the process is killed, the
// next Open waits a few seconds for its lease to end. Between an embedded scheduler and nodes nobody
// waits: the start fails until the one that was killed counts as dead, 3 s at most. A process that was
// stopped for longer than that, or cut off from its store, may find that another one has taken its place:
// what it writes from then on is refused, and [Scheduler.Ready] says why.
//
// # Several processes
//
// Several processes of an application that share a PostgreSQL database or Redis are a cluster if each says
// where the others reach it:
//
//	embedded.Options{Cluster: &embedded.Cluster{Listen: "10.0.0.7:7070", Insecure: true}}
//
// Each fires its share of the jobs, takes calls for all of them, and has its workers take runs of all;
// when one ends or is killed, the others have its share within seconds. Nodes that run by themselves
// (carillon serve) may be members beside them. Listen serves what a node serves there, to whoever reaches
// it.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/store"
)

// Scheduler is a scheduler in this process.
type Scheduler struct {
	carillon.Scheduler
	queues carillon.Queues
	node   *server.Node
	server *server.Server // of a cluster; nil: nothing listens
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
	// Partitions is the number of partitions of a new store. Default 64. As many as the
	// machine has cores are enough if the store never becomes that of a cluster.
	Partitions int
	// Encryption says with which keys what jobs hold is encrypted in the store. Default: it is not.
	Encryption Encryption
	// Payloads keeps large payloads outside the store. Default: they stay in it.
	Payloads *Payloads
	// Audit says what becomes of what the program changes. Default: it is not recorded.
	Audit Audit
	// Cluster makes the scheduler a member of the cluster of its store, which must be on a server. Default:
	// it has the store to itself.
	Cluster *Cluster
}

// Encryption says with which keys what jobs hold is encrypted. All processes that share a store have the
// same.
type Encryption struct {
	// Keys is a file with a Tink keyset in JSON, such as carillon encryption-key makes. It is read again when
	// it has changed.
	Keys string
	// KEK is the URI of the key that the file is encrypted with: file:PATH, or that of a KMS whose client the
	// program has registered with Tink (registry.RegisterKMSClient). Empty: the file is in the clear.
	KEK string
}

// node is what a node is told.
func (e Encryption) node() server.Encryption { return server.Encryption{Keys: e.Keys, KEK: e.KEK} }

// Audit says where it is recorded what the program changes, by the rules of carillon serve --audit: the calls
// that change something, also those that have failed, with the program as who makes them ("program"). Who has
// asked the program for it, and where from, the scheduler cannot know. The zero value of a field is its
// default.
type Audit struct {
	// To is "off", "log", for lines of the log alone, or "store", for entries in the store besides, chained by
	// hash, which carillon audit shows. Default "off".
	To string
	// Keep is how long entries are kept in the store. Default 90 days.
	Keep time.Duration
	// Log gets the lines. Default: Options.Log.
	Log *slog.Logger
}

// Payloads says where large payloads are kept. The zero value of a field is its default; Store has none.
type Payloads struct {
	// Store is file:DIR, a folder that all members of a cluster share, or the URL of a bucket, such as
	// s3://BUCKET/PREFIX; a program imports the package of that kind of bucket, as it does for a store.
	Store string
	// Above is how many bytes of data stay with a job; more are kept apart. Default 64 KiB; negative: none
	// stay.
	Above int
	// Max is the most bytes of a payload that PutPayload stores. Default 64 MiB.
	Max int64
}

// Cluster says how the other schedulers and nodes of a store reach this one.
type Cluster struct {
	// Listen is the host:port to listen on; port 0 picks a free one.
	Listen string
	// Name is unique among the members. One that is started again under its name takes its partitions at
	// once. Default: the machine's name and the port, or, if that is 0, the process's number.
	Name string
	// Advertise is the host, or host:port, at which the others reach this one. Default: that of Listen,
	// and if that is all of the machine, the machine's name.
	Advertise string
	// Insecure allows Listen beyond loopback. Nobody is authenticated there yet: whoever reaches it may do
	// everything.
	Insecure bool
}

// name returns the name, or its default.
func (c *Cluster) name() string {
	if c.Name != "" {
		return c.Name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "embedded"
	}
	if _, port, err := net.SplitHostPort(c.Listen); err == nil && port != "0" {
		return host + "-" + port
	}
	return fmt.Sprint(host, "-", os.Getpid())
}

// Open opens the store of a URL, or creates it, and starts the scheduler. ctx bounds only that: the scheduler
// works until Close.
func Open(ctx context.Context, url string, o Options) (*Scheduler, error) {
	c := server.Config{
		Store: url, Log: o.Log, Limits: o.Bounds, WindowJobs: o.WindowJobs, Partitions: o.Partitions,
		Targets: server.Targets{Allow: o.AllowTargets, HostLimit: o.HTTPHostLimit,
			SigningSecrets: o.SigningSecrets},
		Extensions: server.Extensions{Encryption: o.Encryption.node(), Audit: server.Audit(o.Audit)},
	}
	if o.Payloads != nil {
		c.Payloads = new(server.Payloads(*o.Payloads))
	}
	if o.Cluster != nil {
		return join(ctx, c, o.Cluster)
	}
	node, err := server.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return of(node, nil), nil
}

// join starts a scheduler that others reach.
func join(ctx context.Context, c server.Config, o *Cluster) (*Scheduler, error) {
	if err := store.CheckURL(c.Store); err != nil {
		return nil, err
	}
	if !server.Shared(c.Store) {
		return nil, errors.New("cluster: the store is of one process alone; leave it out, or take one on a server, such as PostgreSQL")
	}
	host, _, err := net.SplitHostPort(o.Listen)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cluster.listen: %q is no address at which the others reach this one, such as 10.0.0.7:7070", o.Listen)
	case !o.Insecure && !server.OnLoopback(host):
		return nil, fmt.Errorf("cluster.listen: %s is reachable from other machines, and nobody is authenticated yet: "+
			"listen on 127.0.0.1, or set Insecure if the network may do everything", o.Listen)
	}
	c.Name, c.GRPC, c.HTTP, c.Advertise, c.Insecure = o.name(), o.Listen, server.None, o.Advertise, o.Insecure
	s, err := server.NewWithin(ctx, c)
	if err != nil {
		return nil, err
	}
	go func() { _ = s.Run(context.Background()) }() // Close returns its error, Ready tells of it before
	return of(s.Node(), s), nil
}

// of is the scheduler of a node, and of its listener if it has one.
func of(node *server.Node, listener *server.Server) *Scheduler {
	s := &Scheduler{node: node, server: listener}
	s.Scheduler, s.queues = recordedBy(node)
	return s
}

// Address returns where other members of the cluster reach the scheduler's listener; empty if there is none.
func (s *Scheduler) Address() string {
	if s.server == nil {
		return ""
	}
	return s.server.GRPCAddr()
}

// Queues shows what waits in queues and who serves them, and pauses, resumes and purges queues.
func (s *Scheduler) Queues() carillon.Queues { return s.queues }

// Ready returns nil if the scheduler can serve, otherwise why not.
func (s *Scheduler) Ready() error { return s.node.Ready() }

// Metrics serves the scheduler's metrics to Prometheus.
func (s *Scheduler) Metrics() http.Handler { return s.node.Metrics().Handler() }

// Close starts no new attempts, tells workers to leave, waits until the attempts in force have ended or ctx
// is done, and closes the store. Attempts that are still in force then may report to the next scheduler of
// the store.
func (s *Scheduler) Close(ctx context.Context) error {
	if s.server != nil {
		return s.server.Leave(ctx)
	}
	return s.node.Close(ctx)
}
