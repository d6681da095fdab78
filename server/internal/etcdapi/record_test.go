package etcdapi

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/loglines"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/server"
)

// TestEveryCallOfEtcdsHasItsEffect: whoever adds a call says whether it may change something.
func TestEveryCallOfEtcdsHasItsEffect(t *testing.T) {
	reads := []string{"KV/Range", "KV/RangeStream", "KV/Compact", "Watch/Watch", "Lease/LeaseKeepAlive", "Lease/LeaseTimeToLive",
		"Lease/LeaseLeases", "Cluster/MemberList", "Maintenance/Alarm", "Maintenance/Status", "Maintenance/Defragment",
		"Maintenance/Hash", "Maintenance/HashKV", "Maintenance/Snapshot"}
	services := pb.File_rpc_proto.Services()
	for i := range services.Len() {
		if services.Get(i).Name() == "Auth" {
			continue // it is not served
		}
		for j := range services.Get(i).Methods().Len() {
			m := services.Get(i).Methods().Get(j)
			name := string(services.Get(i).Name()) + "/" + string(m.Name())
			effect := access.EffectOf("/etcdserverpb." + name)
			if is := slices.Contains(reads, name); is != (effect == access.Reads) {
				t.Errorf("%s has effect %d, reads: %v", name, effect, is)
			}
			if effect != access.Reads && (m.IsStreamingClient() || m.IsStreamingServer()) {
				t.Errorf("%s is a stream, which is not recorded", name)
			}
		}
	}
}

// TestWhatToolsDoIsRecorded: each change of one job once, of several twice, each failure, no read, and no
// value; in the log and in the store.
func TestWhatToolsDoIsRecorded(t *testing.T) {
	const hidden = "S3CRET"
	for _, to := range []string{server.AuditLog, server.AuditStore} {
		t.Run(to, func(t *testing.T) {
			lines := &loglines.Lines{}
			r := startRecorded(t, server.Audit{To: to, Log: slog.New(slog.NewTextHandler(lines, nil))}, Options{})
			r.change(hidden)
			r.stop()
			want := func(n int, texts ...string) {
				t.Helper()
				if got := lines.With(append(texts, "msg=audit ", "audit.principal=anonymous", "audit.address=127.0.0.1:")...); len(got) != n {
					t.Errorf("%d lines with %q, want %d:\n%s", len(got), texts, n, strings.Join(lines.With(), ""))
				}
			}
			one := []string{"audit.action=Put ", "audit.outcome=ok", "audit.namespace=ns", "audit.resource=dapr/app/app/n",
				`audit.fields="[key value]"`}
			if to == server.AuditStore {
				one = append(one, "chain=", "seq=", "hash=")
			}
			want(1, one...)
			want(1, "audit.action=Put ", "audit.outcome=invalid_argument", `audit.resource="other/�\n"`)
			for _, outcome := range []string{carillon.AuditBegun, carillon.AuditOK} {
				want(1, "audit.action=Txn ", "audit.outcome="+outcome, "audit.resource=dapr/app/app/t1", "audit.fields=[success]")
				want(1, "audit.action=DeleteRange ", "audit.outcome="+outcome, "audit.namespace=ns",
					"audit.resource=dapr/jobs/app||ns||app||")
			}
			want(1, "audit.action=LeaseGrant ", "audit.outcome=invalid_argument")
			want(1, "audit.action=LeaseRevoke ", "audit.outcome=not_found")
			want(8)
			if found := lines.With(hidden); len(found) > 0 {
				t.Errorf("values: %q", found)
			}
		})
	}
}

// change makes calls that change something, calls that would, and some that read.
func (r *rig) change(secret string) {
	r.t.Helper()
	ctx, begin := r.t.Context(), time.Now().Add(time.Hour)
	put := func(app, name string) (key, value string) {
		job, _ := recordOfJob(r.t, app, name, 1, begin, 0)
		return "dapr/jobs/app||ns||" + app + "||" + name, job
	}
	key, value := put("app", "n")
	if _, err := r.etcd.Put(ctx, key, value); err != nil {
		r.t.Error(err)
	}
	if _, err := r.etcd.Put(ctx, "other/\xff\n", secret); err == nil {
		r.t.Error("a key of nobody's was written")
	}
	var ops []clientv3.Op
	for _, name := range []string{"t1", "t2", "t3"} {
		ops = append(ops, clientv3.OpPut(put("app", name)))
	}
	if _, err := r.etcd.Txn(ctx).Then(ops...).Commit(); err != nil {
		r.t.Error(err)
	}
	if _, err := r.etcd.Txn(ctx).Then(clientv3.OpGet(key)).Commit(); err != nil {
		r.t.Error(err)
	}
	r.get(key)
	if _, err := r.etcd.Delete(ctx, "dapr/jobs/app||ns||app||", clientv3.WithPrefix()); err != nil {
		r.t.Error(err)
	}
	if _, err := r.etcd.Grant(ctx, 60); err == nil {
		r.t.Error("a lease was granted")
	}
	if _, err := r.etcd.Revoke(ctx, 7); err == nil {
		r.t.Error("a lease that there is not was revoked")
	}
}

// TestWhatAKeyIsAbout: the job, where the key names one and can be read in one way, otherwise the key.
func TestWhatAKeyIsAbout(t *testing.T) {
	for _, c := range []struct{ key, end, namespace, resource string }{
		{"dapr/jobs/app||ns||a||n", "", "ns", "dapr/app/a/n"},
		{"dapr/counters/app||ns||a||n/m", "", "ns", "dapr/app/a/n%2Fm"},
		{"dapr/jobs/actorreminder||ns||kind||id||n", "", "ns", "dapr/actor/kind/id/n"},
		{"dapr/jobs/app||ns||a||b||n", "", "ns", "dapr/jobs/app||ns||a||b||n"},
		{"dapr/jobs/app||ns||a||", "", "ns", "dapr/jobs/app||ns||a||"},
		{"dapr/jobs/app||ns||a||n", "dapr/jobs/app||ns||a||o", "ns", "dapr/jobs/app||ns||a||n"},
		{"dapr/jobs/app||ns||a", "dapr/jobs/app||other", "", "dapr/jobs/app||"},
		{"dapr/jobs/app||ns", "", "", "dapr/jobs/app||ns"},
		{"dapr/leadership/x", "", "", "dapr/leadership/x"},
		{"\x00", "\x00", "", ""},
		{"\xff", "", "", "\ufffd"},
	} {
		namespace, resource := nameFor(spanOf([]byte(c.key), []byte(c.end)))
		if namespace != c.namespace || resource != c.resource {
			t.Errorf("%q to %q: %q, %q", c.key, c.end, namespace, resource)
		}
	}
}

// TestATransactionOfSeveralNamespacesIsOfNone: who may see one namespace is not told of the others.
func TestATransactionOfSeveralNamespacesIsOfNone(t *testing.T) {
	put := func(namespace string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
			Key: []byte("dapr/jobs/app||" + namespace + "||a||n")}}}
	}
	reads := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("dapr/jobs/x")}}}
	for want, ops := range map[string][]*pb.RequestOp{"ns": {reads, put("ns"), put("ns"), reads},
		"": {put("ns"), reads, put("other")}} {
		if about := named(&pb.TxnRequest{Success: ops}); about.Namespace != want || about.Resource != "dapr/app/a/n" {
			t.Errorf("%v: %+v", ops, about)
		}
	}
}
