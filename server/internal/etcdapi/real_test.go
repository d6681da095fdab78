package etcdapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	cronpb "github.com/carillonhq/carillon/api/dapr/proto/cron/v1"
	schedulerpb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

// theOriginal starts Dapr's own scheduler with its etcd, and connects as the rig does.
func theOriginal(t *testing.T) *rig {
	t.Helper()
	binary := os.Getenv("CARILLON_TEST_DAPR_SCHEDULER")
	if binary == "" {
		t.Skip("CARILLON_TEST_DAPR_SCHEDULER is not set: it takes the path of the scheduler binary of Dapr 1.18, to be tested against")
	}
	ports := freePorts(t)
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, binary, "--id=s-0", "--listen-address=127.0.0.1",
		fmt.Sprintf("--port=%d", ports[0]), fmt.Sprintf("--healthz-port=%d", ports[1]),
		fmt.Sprintf("--metrics-port=%d", ports[2]), fmt.Sprintf("--etcd-client-port=%d", ports[3]),
		fmt.Sprintf("--etcd-initial-cluster=s-0=http://127.0.0.1:%d", ports[4]), "--etcd-data-dir="+t.TempDir())
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("%s", log.Bytes())
		}
	})
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{fmt.Sprintf("127.0.0.1:%d", ports[3])},
		Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Close(); err != nil {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rig{t: t, etcd: etcd, sidecar: schedulerpb.NewSchedulerClient(conn), address: address}
}

// freePorts are those that the original listens at.
func freePorts(t *testing.T) (ports [5]int) {
	t.Helper()
	var taken [len(ports)]net.Listener
	for i := range ports {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		taken[i], ports[i] = l, l.Addr().(*net.TCPAddr).Port
	}
	for _, l := range taken {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return ports
}

// TestItAnswersAsTheOriginalDoes schedules the same jobs with Dapr's own scheduler and with a node: the keys
// are the same, whatever the range, and the records say the same.
func TestItAnswersAsTheOriginalDoes(t *testing.T) {
	theirs, ours := theOriginal(t), start(t, Options{ID: "s-0"})
	data, err := anypb.New(wrapperspb.String("hello"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*rig{theirs, ours} {
		r.schedule(appOf("default", "shop"), "once", far())
		r.schedule(appOf("default", "shop|"), "a||b", far())
		r.schedule(appOf("other", "shop"), "é 1:2%3", &schedulerpb.Job{Schedule: new("0 0 2 * * *"), Data: data})
		r.schedule(appOf("default", "shop-2"), "hourly", &schedulerpb.Job{Schedule: new("@every 1h"),
			Repeats: new(uint32(5)), Ttl: new("720h"), DueTime: new("2099-01-01T00:00:00Z")})
		r.schedule(actorOf("default", "type", "id"), "check", &schedulerpb.Job{Schedule: new("@every 1h"),
			DueTime: new("240h")})
		r.schedule(actorOf("default", "type", "id||2"), "", far())
	}
	all := theirs.get("dapr/jobs", clientv3.WithPrefix()).Kvs
	if len(all) != 6 {
		t.Fatalf("the original has %d jobs", len(all))
	}
	for i, item := range ours.get("dapr/jobs", clientv3.WithPrefix()).Kvs {
		if !bytes.Equal(item.Key, all[i].Key) {
			t.Errorf("key %q, the original has %q", item.Key, all[i].Key)
			continue
		}
		sameRecord(t, string(item.Key), item.Value, all[i].Value)
	}
	ends := append([]string{"", "\x00", "dapr/jobs0", "dapr/jobs/b", "dapr/m", "a", "z"}, keysOf(all)...)
	starts := append([]string{"\x00", "d", "dapr/jobs/app||", "dapr/jobs/app||default||shop", "dapr/counters/"},
		keysOf(all)...)
	for _, from := range starts {
		for _, end := range append(ends, clientv3.GetPrefixRangeEnd(from)) {
			for _, m := range []*pb.RangeRequest{{}, {Limit: 2}, {Limit: 3, SortOrder: pb.RangeRequest_DESCEND},
				{KeysOnly: true, Limit: 1}, {CountOnly: true}, {CountOnly: true, Limit: 1}} {
				m.Key, m.RangeEnd = []byte(from), []byte(end)
				want, got := theirs.ranged(m), ours.ranged(m)
				if want != got {
					t.Errorf("%v:\n%s, the original answers\n%s", m, got, want)
				}
			}
		}
	}
	moved, records := start(t, Options{}), theirs.stored("dapr/jobs/")
	moved.write(128, records)
	for key, value := range moved.stored("dapr/jobs/") {
		got, want := new(cronpb.StoredJob), new(cronpb.StoredJob)
		if err := errors.Join(proto.Unmarshal([]byte(value), got), proto.Unmarshal([]byte(records[key]), want)); err != nil ||
			got.GetPartitionId() != want.GetPartitionId() || !proto.Equal(got.GetJob(), want.GetJob()) {
			t.Errorf("%s: %v, the original has %v: %v", key, got, want, err)
		}
	}
	for _, r := range []*rig{theirs, ours, moved} {
		answer, err := r.etcd.Delete(t.Context(), "dapr/jobs/app||default||shop||", clientv3.WithPrefix(), clientv3.WithPrevKV())
		if err != nil || answer.Deleted != 2 || len(answer.PrevKvs) != 2 {
			t.Errorf("delete: %v, %v", answer, err)
		}
		if list, err := r.sidecar.ListJobs(t.Context(), &schedulerpb.ListJobsRequest{Metadata: appOf("default", "shop")}); err != nil ||
			len(list.GetJobs()) != 0 {
			t.Errorf("after the delete a sidecar is shown %v, %v", list, err)
		}
	}
	original, err := theirs.etcd.Get(t.Context(), "dapr/leadership/s-0")
	if err != nil {
		t.Fatal(err)
	}
	leader, want := new(cronpb.Leadership), new(cronpb.Leadership)
	if err := proto.Unmarshal(ours.get("dapr/leadership/s-0").Kvs[0].Value, leader); err != nil {
		t.Error(err)
	}
	if err := proto.Unmarshal(original.Kvs[0].Value, want); err != nil || leader.GetTotal() != want.GetTotal() ||
		leader.GetReplicaData().GetTypeUrl() != want.GetReplicaData().GetTypeUrl() {
		t.Errorf("%v leads, with the original %v: %v", leader, want, err)
	}
}

// sameRecord holds a job's record against the original's: what was asked for, and when it begins and ends to
// the second.
func sameRecord(t *testing.T, key string, value, theirs []byte) {
	t.Helper()
	got, want := new(cronpb.StoredJob), new(cronpb.StoredJob)
	for b, m := range map[*[]byte]*cronpb.StoredJob{&value: got, &theirs: want} {
		if err := proto.Unmarshal(*b, m); err != nil {
			t.Fatal(err)
		}
	}
	if !proto.Equal(got.GetJob(), want.GetJob()) {
		t.Errorf("%s: %v, the original has %v", key, got.GetJob(), want.GetJob())
	}
	near := func(a, b interface{ AsTime() time.Time }) bool {
		return a.AsTime().Sub(b.AsTime()).Abs() < time.Minute
	}
	if !near(got.GetStart(), want.GetStart()) || !near(got.GetDueTime(), want.GetDueTime()) || !near(got.GetExpiration(), want.GetExpiration()) {
		t.Errorf("%s: %v, the original has %v", key, got, want)
	}
}

// ranged is an answer without what differs from server to server.
func (r *rig) ranged(m *pb.RangeRequest) string {
	r.t.Helper()
	answer, err := pb.NewKVClient(r.etcd.ActiveConnection()).Range(r.t.Context(), m)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%d, more: %t", answer.Count, answer.More)
	for _, item := range answer.Kvs {
		text += fmt.Sprintf(" %q %t", item.Key, len(item.Value) > 0)
	}
	return text
}
