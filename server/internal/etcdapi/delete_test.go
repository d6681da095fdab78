package etcdapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/carillonhq/carillon"
)

func mustAny(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustEncode(t testing.TB, m proto.Message) string {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDeletesAreDeletesOfJobs, of one or of all that begin alike, with their counters; no others.
func TestDeletesAreDeletesOfJobs(t *testing.T) {
	r := start(t, Options{})
	for _, app := range []string{"a", "ab", "a|"} {
		for i := range 100 {
			r.schedule(appOf("ns", app), fmt.Sprint(i), far())
		}
	}
	begin := time.Now().Add(-30 * time.Minute)
	job, counter := recordOfJob(t, "counted", "x", 1, begin, 1)
	r.write(2, map[string]string{"dapr/jobs/app||ns||counted||x": job, "dapr/counters/app||ns||counted||x": counter})
	other := carillon.Job{Namespace: "ns", Name: "other", Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}
	if _, err := r.jobs.PutJob(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	del := func(key string, o ...clientv3.OpOption) int64 {
		t.Helper()
		answer, err := r.etcd.Delete(t.Context(), key, o...)
		if err != nil {
			t.Fatalf("delete %q: %v", key, err)
		}
		for _, item := range answer.PrevKvs {
			if !strings.HasPrefix(string(item.Key), key) {
				t.Errorf("delete %q: %q was deleted", key, item.Key)
			}
		}
		return answer.Deleted
	}
	if n := del("dapr/jobs/app||ns||a||7"); n != 1 {
		t.Errorf("%d of one job deleted", n)
	}
	if n := del("dapr/jobs/app||ns||a||7"); n != 0 {
		t.Errorf("%d of no job deleted", n)
	}
	// Those of "a|" have keys that begin so, too.
	if n := del("dapr/jobs/app||ns||a||", clientv3.WithPrefix(), clientv3.WithPrevKV()); n != 199 {
		t.Errorf("%d of 199 jobs deleted", n)
	}
	if n := len(r.keys("dapr/jobs/")); n != 101 {
		t.Errorf("%d jobs are left, want 101", n)
	}
	_, err := r.etcd.Delete(t.Context(), "dapr/counters/", clientv3.WithPrefix())
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "app||ns||counted||x") {
		t.Errorf("a counter alone: %v", err)
	}
	_, err = r.etcd.Delete(t.Context(), "dapr/", clientv3.WithPrefix())
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "dapr/leadership/") {
		t.Errorf("with the keys of schedulers: %v", err)
	}
	_, err = r.etcd.Delete(t.Context(), "")
	if !errors.Is(err, rpctypes.ErrEmptyKey) {
		t.Errorf("no key: %v", err)
	}
	if n := del("dapr/counters/", clientv3.WithRange("dapr/jobs0")); n != 102 {
		t.Errorf("%d records deleted, want 102", n)
	}
	r.wantKeys("dapr/jobs/")
	if _, err := r.jobs.GetJob(t.Context(), other.Key()); err != nil {
		t.Errorf("a job that is not Dapr's: %v", err)
	}
}

// TestDaprsCommandsToDelete sends what dapr scheduler delete and delete-all send.
func TestDaprsCommandsToDelete(t *testing.T) {
	r := start(t, Options{})
	begin := time.Now().Add(-30 * time.Minute)
	for _, name := range []string{"x", "y", "z"} {
		job, counter := recordOfJob(t, "shop", name, 1, begin, 1)
		r.write(2, map[string]string{"dapr/jobs/app||ns||shop||" + name: job, "dapr/counters/app||ns||shop||" + name: counter})
	}
	answer, err := r.etcd.Txn(t.Context()).Then(clientv3.OpGet("dapr/jobs/app||ns||shop||x"),
		clientv3.OpGet("dapr/counters/app||ns||shop||x")).Commit()
	if err != nil || len(answer.Responses[0].GetResponseRange().Kvs) != 1 || len(answer.Responses[1].GetResponseRange().Kvs) != 1 {
		t.Errorf("get: %v, %v", answer, err)
	}
	answer, err = r.etcd.Txn(t.Context()).Then(clientv3.OpDelete("dapr/jobs/app||ns||shop||x"),
		clientv3.OpDelete("dapr/counters/app||ns||shop||x")).Commit()
	if err != nil || answer.Responses[0].GetResponseDeleteRange().Deleted != 1 {
		t.Errorf("delete: %v, %v", answer, err)
	}
	var all []clientv3.Op
	for _, prefix := range []string{"dapr/jobs/app||ns||", "dapr/jobs/actorreminder||ns||", "dapr/counters/app||ns||",
		"dapr/counters/actorreminder||ns||"} {
		all = append(all, clientv3.OpDelete(prefix, clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithKeysOnly()))
	}
	answer, err = r.etcd.Txn(t.Context()).Then(all...).Commit()
	if err != nil || len(answer.Responses) != 4 {
		t.Fatalf("delete-all: %v, %v", answer, err)
	}
	if got := answer.Responses[0].GetResponseDeleteRange(); got.Deleted != 2 || len(got.PrevKvs) != 2 ||
		string(got.PrevKvs[1].Key) != "dapr/jobs/app||ns||shop||z" {
		t.Errorf("delete-all: %v", got)
	}
	r.wantKeys("dapr/jobs/")
}
