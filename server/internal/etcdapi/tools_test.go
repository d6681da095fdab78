package etcdapi

import (
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	cronpb "github.com/carillonhq/carillon/api/dapr/proto/cron/v1"
)

// TestASchedulersLease: there is one for each node, and another in its place when it is revoked.
func TestASchedulersLease(t *testing.T) {
	r := start(t, Options{ID: "s-0"})
	lease := func() clientv3.LeaseID {
		t.Helper()
		answer, err := r.etcd.Leases(t.Context())
		if err != nil || len(answer.Leases) != 1 {
			t.Fatalf("leases: %v, %v", answer, err)
		}
		return answer.Leases[0].ID
	}
	first := lease()
	leader := r.get("dapr/leadership/s-0").Kvs[0]
	m := new(cronpb.Leadership)
	if err := proto.Unmarshal(leader.Value, m); err != nil || m.GetTotal() != 1 || m.GetUid() == 0 || leader.Lease != int64(first) {
		t.Errorf("%v with lease %d, want %d: %v", m, leader.Lease, first, err)
	}
	left, err := r.etcd.TimeToLive(t.Context(), first, clientv3.WithAttachedKeys())
	if err != nil || left.TTL <= 0 || len(left.Keys) != 1 || string(left.Keys[0]) != "dapr/leadership/s-0" {
		t.Errorf("%v: %v", left, err)
	}
	if _, err := r.etcd.Revoke(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if second := lease(); second == first || r.get("dapr/leadership/s-0").Kvs[0].Lease != int64(second) {
		t.Errorf("after it was revoked the lease is %d", second)
	}
	if left, err = r.etcd.TimeToLive(t.Context(), first); err != nil || left.TTL != -1 {
		t.Errorf("the old lease: %v, %v", left, err)
	}
	if _, err := r.etcd.Revoke(t.Context(), first); err == nil || err.Error() != rpctypes.ErrLeaseNotFound.Error() {
		t.Errorf("to revoke it again: %v", err)
	}
	if _, err := r.etcd.Grant(t.Context(), 10); status.Code(err) != codes.Unimplemented {
		t.Errorf("a lease of another: %v", err)
	}
	alive, err := pb.NewLeaseClient(r.etcd.ActiveConnection()).LeaseKeepAlive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alive.Recv(); err == nil || !strings.Contains(err.Error(), "leases") { // a Send may find it ended
		t.Errorf("to keep one alive: %v", err)
	}
}

// TestToolsThatTidyUp are told that it is done: the store does it by itself. What they would learn something
// wrong from is refused.
func TestToolsThatTidyUp(t *testing.T) {
	r := start(t, Options{ID: "s-0", Address: "127.0.0.1:2379"})
	st, err := r.etcd.Status(t.Context(), r.address)
	if err != nil || st.Header.Revision < time.Now().Add(-time.Hour).UnixNano() || st.Leader != st.Header.MemberId {
		t.Fatalf("status: %v, %v", st, err)
	}
	if _, err := r.etcd.Compact(t.Context(), st.Header.Revision); err != nil {
		t.Errorf("compact: %v", err)
	}
	if _, err := r.etcd.Compact(t.Context(), st.Header.Revision<<1); err == nil || err.Error() != rpctypes.ErrFutureRev.Error() {
		t.Errorf("compact what is to come: %v", err)
	}
	if _, err := r.etcd.Defragment(t.Context(), r.address); err != nil {
		t.Errorf("defragment: %v", err)
	}
	if alarms, err := r.etcd.AlarmList(t.Context()); err != nil || len(alarms.Alarms) != 0 {
		t.Errorf("alarms: %v, %v", alarms, err)
	}
	list, err := r.etcd.MemberList(t.Context())
	if err != nil || len(list.Members) != 1 || list.Members[0].Name != "s-0" || list.Members[0].ID != st.Header.MemberId ||
		list.Members[0].ClientURLs[0] != "http://127.0.0.1:2379" {
		t.Errorf("members: %v, %v", list, err)
	}
	conn := r.etcd.ActiveConnection()
	maintenance, cluster := pb.NewMaintenanceClient(conn), pb.NewClusterClient(conn)
	for what, call := range map[string]func() error{
		"hash":     func() error { _, err := maintenance.Hash(t.Context(), &pb.HashRequest{}); return err },
		"hash kv":  func() error { _, err := maintenance.HashKV(t.Context(), &pb.HashKVRequest{}); return err },
		"leader":   func() error { _, err := maintenance.MoveLeader(t.Context(), &pb.MoveLeaderRequest{}); return err },
		"version":  func() error { _, err := maintenance.Downgrade(t.Context(), &pb.DowngradeRequest{}); return err },
		"alarm":    func() error { _, err := maintenance.Alarm(t.Context(), &pb.AlarmRequest{Action: 1}); return err },
		"add":      func() error { _, err := cluster.MemberAdd(t.Context(), &pb.MemberAddRequest{}); return err },
		"remove":   func() error { _, err := cluster.MemberRemove(t.Context(), &pb.MemberRemoveRequest{}); return err },
		"update":   func() error { _, err := cluster.MemberUpdate(t.Context(), &pb.MemberUpdateRequest{}); return err },
		"promote":  func() error { _, err := cluster.MemberPromote(t.Context(), &pb.MemberPromoteRequest{}); return err },
		"snapshot": func() error { return refusedStream(maintenance.Snapshot(t.Context(), &pb.SnapshotRequest{})) },
		"stream":   func() error { return refusedStream(pb.NewKVClient(conn).RangeStream(t.Context(), &pb.RangeRequest{})) },
	} {
		if err := call(); status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "is not had here") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func refusedStream[T any](stream interface{ Recv() (T, error) }, err error) error {
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}

// TestRevisionsNeverGoBack: that of an answer is at least that of what is in it, whatever the clock does.
func TestRevisionsNeverGoBack(t *testing.T) {
	now := time.Unix(1000, 0)
	c := &clock{now: func() time.Time { return now }}
	last := int64(0)
	for _, step := range []struct {
		clock time.Duration
		read  int64
	}{{0, 0}, {time.Second, 0}, {-time.Hour, 0}, {0, 5e12}, {time.Hour, 1}, {2 * time.Hour, 0}} {
		now = now.Add(step.clock)
		got := c.at(step.read)
		if got < last || got < step.read {
			t.Errorf("%d after %d", got, last)
		}
		last = got
	}
	if last != now.UnixNano() {
		t.Errorf("it stays behind the clock: %d", last)
	}
}
