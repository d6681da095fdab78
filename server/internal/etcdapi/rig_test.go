package etcdapi

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/carillonhq/carillon"
	schedulerpb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/daprapi"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
	"github.com/carillonhq/carillon/server/internal/server"
	_ "github.com/carillonhq/carillon/server/store/memory"
	_ "github.com/carillonhq/carillon/server/store/pebble"
)

// rig is a node with two clients: etcd's own, and a sidecar.
type rig struct {
	t       testing.TB
	node    *server.Node
	etcd    *clientv3.Client
	sidecar schedulerpb.SchedulerClient
	jobs    carillon.Scheduler
	address string
	stop    func()
}

// start sets a node to work until the test ends.
func start(t testing.TB, o Options, extra ...grpc.ServerOption) *rig {
	t.Helper()
	return startRecorded(t, server.Audit{}, o, extra...)
}

// startRecorded is start with a record of who changes what.
func startRecorded(t testing.TB, audit server.Audit, o Options, extra ...grpc.ServerOption) *rig {
	t.Helper()
	node, err := server.Start(t.Context(), server.Config{Store: "pebble:" + t.TempDir(), Partitions: 4,
		SlowStart: server.SlowStart{Step: -1}, Extensions: server.Extensions{Audit: audit}})
	if err != nil {
		t.Fatal(err)
	}
	frame := grpcapi.NewFrame(server.APIOptions(grpcapi.Options{NoHealth: true}), append(o.ServerOptions(), extra...)...)
	stops := []func(){daprapi.Serve(node, frame, daprapi.Options{}), Serve(node, frame, o)}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- frame.Serve(listener) }()
	address := listener.Addr().String()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		err := node.Close(now)
		for _, stop := range stops {
			stop()
		}
		err = errors.Join(err, etcd.Close(), conn.Close())
		frame.GracefulStop()
		if err := errors.Join(err, <-served); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	t.Cleanup(stop)
	return &rig{t: t, node: node, etcd: etcd, sidecar: schedulerpb.NewSchedulerClient(conn), jobs: node.Remote(),
		address: address, stop: stop}
}

// appOf and actorOf are metadata of jobs in a namespace.
func appOf(namespace, app string) *schedulerpb.JobMetadata {
	return &schedulerpb.JobMetadata{AppId: app, Namespace: namespace, Target: &schedulerpb.JobTargetMetadata{
		Type: &schedulerpb.JobTargetMetadata_Job{Job: &schedulerpb.TargetJob{}}}}
}

func actorOf(namespace, kind, id string) *schedulerpb.JobMetadata {
	return &schedulerpb.JobMetadata{AppId: "app", Namespace: namespace, Target: &schedulerpb.JobTargetMetadata{
		Type: &schedulerpb.JobTargetMetadata_Actor{Actor: &schedulerpb.TargetActorReminder{Type: kind, Id: id}}}}
}

// far is a job that does not run while a test lasts.
func far() *schedulerpb.Job { return &schedulerpb.Job{DueTime: new("2099-01-01T00:00:00Z")} }

// schedule schedules a job, as a sidecar.
func (r *rig) schedule(m *schedulerpb.JobMetadata, name string, job *schedulerpb.Job) {
	r.t.Helper()
	if _, err := r.sidecar.ScheduleJob(r.t.Context(),
		&schedulerpb.ScheduleJobRequest{Name: name, Metadata: m, Job: job, Overwrite: true}); err != nil {
		r.t.Fatalf("schedule %q: %v", name, err)
	}
}

// get reads keys.
func (r *rig) get(key string, o ...clientv3.OpOption) *clientv3.GetResponse {
	r.t.Helper()
	answer, err := r.etcd.Get(r.t.Context(), key, o...)
	if err != nil {
		r.t.Fatalf("get %q: %v", key, err)
	}
	return answer
}

// keys are those that begin with a prefix.
func (r *rig) keys(prefix string) []string {
	r.t.Helper()
	return keysOf(r.get(prefix, clientv3.WithPrefix()).Kvs)
}

// keysOf are the keys of records.
func keysOf(all []*mvccpb.KeyValue) (keys []string) {
	for _, item := range all {
		keys = append(keys, string(item.Key))
	}
	return keys
}

// wantKeys holds the keys that begin with a prefix to a list.
func (r *rig) wantKeys(prefix string, want ...string) {
	r.t.Helper()
	if got := r.keys(prefix); !slices.Equal(got, want) {
		r.t.Errorf("keys %q…: %q, want %q", prefix, got, want)
	}
}
