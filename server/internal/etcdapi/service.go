package etcdapi

import (
	"cmp"
	"context"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// Options configures the service. The zero value of a field is its default, given here.
type Options struct {
	// ID is the name of this node among the schedulers, as its cluster has it; one that is alone may have
	// another there. Default "carillon".
	ID string
	// Address is where the service is reached, host:port, for those who ask for the members. Default: they
	// are not told.
	Address string
	// Logger gets what went wrong. Default: discarded.
	Logger *slog.Logger
	// Now is the node's clock. Default [time.Now].
	Now func() time.Time
	// AnswerBytes is the most bytes of keys and values in an answer. Default 256 MiB.
	AnswerBytes int
	// Answers is how many answers are put together at a time; others wait. Ranges of one key have eight times
	// as many turns of their own. Default 2.
	Answers int
	// SendingBytes is the most bytes of answers that are being sent, of all calls together; others wait.
	// Default 512 MiB.
	SendingBytes int
	// RequestBytes is the most bytes of a request. Default 16 MiB: etcd's own client sends 2 MiB at most
	// unless it is told to send more, and a job has up to 4 MiB.
	RequestBytes int
	// HeldBytes is the most bytes of requests that are being read or served, of all calls together; others
	// wait. Default 64 MiB.
	HeldBytes int
	// Patience is how long a request may take to come, and an answer waits until others have been read, which
	// is 2 s at most: others wait for its turn. Default 30 s.
	Patience time.Duration
	// CallTimeout is how long a call without a deadline may take: it may be about all jobs. Default 10 min.
	CallTimeout time.Duration
	// Operations is the most operations in a transaction. Default 10,000, as with Dapr's scheduler.
	Operations int
	// Watchers is how many streams may watch at a time: each may be sending a large request. Default 16.
	Watchers int
	// WatchEvery is how often watched keys are looked at. Default 1 s.
	WatchEvery time.Duration
	// WatchedKeys is the most keys that the watches of the node have together. Default 1,000,000.
	WatchedKeys int
	// Audit records who changes what. Default: that of the node, if it records any.
	Audit access.Auditor
}

func (o Options) withDefaults() Options {
	o.ID = cmp.Or(o.ID, "carillon")
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	o.AnswerBytes = cmp.Or(o.AnswerBytes, 256<<20)
	o.Answers = cmp.Or(o.Answers, 2)
	o.SendingBytes = cmp.Or(o.SendingBytes, 512<<20)
	o.RequestBytes = cmp.Or(o.RequestBytes, 16<<20)
	o.HeldBytes = max(cmp.Or(o.HeldBytes, 64<<20), o.RequestBytes+overhead)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	o.CallTimeout = cmp.Or(o.CallTimeout, 10*time.Minute)
	o.Operations = cmp.Or(o.Operations, 10_000)
	o.Watchers = cmp.Or(o.Watchers, 16)
	o.WatchEvery = cmp.Or(o.WatchEvery, time.Second)
	o.WatchedKeys = cmp.Or(o.WatchedKeys, 1_000_000)
	return o
}

// Jobs is what the service needs of a node's jobs.
type Jobs interface {
	PutJob(ctx context.Context, job carillon.Job, opts ...carillon.PutOption) (carillon.PutResult, error)
	DeleteJob(ctx context.Context, key carillon.Key,
		opts ...carillon.DeleteOption) (carillon.DeleteResult, error)
}

// EachJob calls f with the jobs of a namespace, or of all if it is empty, whose names begin with the prefix:
// one call at a time, in no order, until one fails.
type EachJob func(ctx context.Context, namespace, prefix string, f func(*carillon.Job) error) error

// Nodes calls f with the living nodes, at once and after each change, until ctx ends or f fails.
type Nodes func(ctx context.Context, f func([]carillon.Node) error) error

// Service is the part of etcd's API that tools for Dapr's scheduler use.
type Service struct {
	jobs    Jobs
	jobsOf  EachJob
	nodes   Nodes
	options Options
	clock   *clock
	begun   int64 // the revision at which the service began
	answers turns // of answers that are being put together
	singles turns // of those with one key at most
	streams turns // of watches
	// bytes of requests that are being read or served, and of answers that are being sent
	requests, sending budget
	watched           keyBudget
	revoked           revoked

	leave sync.Once
	left  chan struct{} // closed by Stop
}

// New returns the service over a node's jobs.
func New(jobs Jobs, each EachJob, nodes Nodes, o Options) *Service {
	o = o.withDefaults()
	c := &clock{now: o.Now}
	return &Service{jobs: jobs, jobsOf: each, nodes: nodes, options: o, clock: c, begun: c.at(0),
		answers: make(turns, o.Answers), singles: make(turns, 8*o.Answers),
		streams: make(turns, o.Watchers), requests: newBudget(o.HeldBytes),
		sending: newBudget(o.SendingBytes), watched: keyBudget{most: int64(o.WatchedKeys)},
		left: make(chan struct{})}
}

// Register registers the service with a gRPC server that has [Options.ServerOptions].
func (s *Service) Register(r grpc.ServiceRegistrar) {
	r.RegisterService(s.bounded(pb.KV_ServiceDesc), kvServer{s: s})
	pb.RegisterWatchServer(r, watchServer{s: s})
	r.RegisterService(s.bounded(pb.Lease_ServiceDesc), leaseServer{s: s})
	r.RegisterService(s.bounded(pb.Maintenance_ServiceDesc), maintenanceServer{s: s})
	r.RegisterService(s.bounded(pb.Cluster_ServiceDesc), clusterServer{s: s})
}

// Stop ends the streams of watches.
func (s *Service) Stop() { s.leave.Do(func() { close(s.left) }) }

// Node is what the service is over.
type Node interface {
	Remote() carillon.Scheduler
	Cluster() carillon.Cluster
	Auditor() access.Auditor
	EachJob(ctx context.Context, namespace, prefix string, f func(*carillon.Job) error) error
}

// Serve registers the service over a node with a gRPC server; stop ends its streams.
func Serve(n Node, r grpc.ServiceRegistrar, o Options) (stop func()) {
	if o.Audit == nil {
		o.Audit = n.Auditor()
	}
	s := New(n.Remote(), n.EachJob, n.Cluster().WatchNodes, o)
	s.Register(r)
	return s.Stop
}

// turns has one element for each that is taken.
type turns chan struct{}

// begin waits for a turn; end lets another have it.
func (t turns) begin(ctx context.Context) (end func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// header returns the header of an answer whose newest record has the revision.
func (s *Service) header(newest int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: daprrecord.ClusterOfCarillon, MemberId: numberOf(s.options.ID),
		Revision: s.clock.at(newest), RaftTerm: 1}
}

// numberOf returns the number of a name, as etcd has numbers for members and leases: positive, and the same
// on every node.
func numberOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()>>1 | 1
}
