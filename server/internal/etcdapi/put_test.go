package etcdapi

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	cronpb "github.com/carillonhq/carillon/api/dapr/proto/cron/v1"
	schedulerpb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

// stored are the records under a prefix, by key.
func (r *rig) stored(prefix string) map[string]string {
	r.t.Helper()
	all := map[string]string{}
	for _, item := range r.get(prefix, clientv3.WithPrefix()).Kvs {
		all[string(item.Key)] = string(item.Value)
	}
	return all
}

// write writes records in transactions of so many, counters last, as dapr scheduler import does.
func (r *rig) write(size int, parts ...map[string]string) {
	r.t.Helper()
	var ops []clientv3.Op
	for _, part := range parts {
		for key, value := range part {
			ops = append(ops, clientv3.OpPut(key, value))
		}
	}
	for len(ops) > 0 {
		n := min(size, len(ops))
		answer, err := r.etcd.Txn(r.t.Context()).Then(ops[:n]...).Commit()
		if err != nil || !answer.Succeeded || len(answer.Responses) != n {
			r.t.Fatalf("a transaction of %d puts: %v, %v", n, answer, err)
		}
		ops = ops[n:]
	}
}

// recordOfJob is what Dapr's scheduler would have of a job that runs every hour, after so many runs.
func recordOfJob(t testing.TB, app, name string, partition uint64, begin time.Time, runs int) (job, counter string) {
	t.Helper()
	r := &cronpb.StoredJob{PartitionId: partition,
		Begin: &cronpb.StoredJob_DueTime{DueTime: timestamppb.New(begin)},
		Job: &cronpb.JobSpec{Schedule: new("@every 1h"), DueTime: new(begin.Format(time.RFC3339)),
			Metadata: mustAny(t, appOf("ns", app)), Payload: mustAny(t, &schedulerpb.Host{Address: "payload"})}}
	job = mustEncode(t, r)
	if runs > 0 {
		last := begin.Add(time.Duration(runs-1) * time.Hour)
		counter = mustEncode(t, &cronpb.Counter{JobPartitionId: partition, Count: uint32(runs),
			LastTrigger: timestamppb.New(last)})
	}
	return job, counter
}

// nextRun is when a job of an app runs next.
func (r *rig) nextRun(app, name string) time.Time {
	r.t.Helper()
	job, err := r.jobs.GetJob(r.t.Context(), carillon.Key{Namespace: "ns", Name: "dapr/app/" + app + "/" + name})
	if err != nil {
		r.t.Fatal(err)
	}
	return job.Status.NextRun.UTC()
}

// TestWhatIsExportedCanBeImported: records of one node, written to another as dapr scheduler import does, are
// the same there, however many come in a transaction, and also if they are written again.
func TestWhatIsExportedCanBeImported(t *testing.T) {
	from := start(t, Options{})
	begin := time.Now().UTC().Truncate(time.Second).Add(-150 * time.Minute) // it has run three times
	for i := range 30 {
		name := fmt.Sprintf("hourly-%02d", i)
		job, counter := recordOfJob(t, "shop", name, uint64(i+1), begin, 3)
		from.write(2, map[string]string{"dapr/jobs/app||ns||shop||" + name: job,
			"dapr/counters/app||ns||shop||" + name: counter})
		from.schedule(actorOf("ns", "type", fmt.Sprint(i)), "once", far())
	}
	jobs, counters := from.stored("dapr/jobs/"), from.stored("dapr/counters/")
	if len(jobs) != 60 || len(counters) != 30 {
		t.Fatalf("%d jobs and %d counters", len(jobs), len(counters))
	}
	for _, size := range []int{128, 7} {
		to := start(t, Options{})
		for range 2 {
			to.write(size, jobs, counters)
			for name, want := range map[string]map[string]string{"dapr/jobs/": jobs, "dapr/counters/": counters} {
				if got := to.stored(name); !maps.Equal(got, want) {
					t.Errorf("%d at a time: %s has %d records, want %d, or others", size, name, len(got), len(want))
				}
			}
			if got, want := to.nextRun("shop", "hourly-07"), begin.Add(3*time.Hour); !got.Equal(want) {
				t.Errorf("%d at a time: the next run is at %v, want %v", size, got, want)
			}
		}
	}
}

// TestACounterSaysWhereAJobIs: one that is written after the job sets it there, one of another job of the name
// does not, and neither is kept without a job.
func TestACounterSaysWhereAJobIs(t *testing.T) {
	r := start(t, Options{})
	begin := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
	put := func(key, value string) {
		t.Helper()
		if _, err := r.etcd.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	const jobKey, counterKey = "dapr/jobs/app||ns||shop||a", "dapr/counters/app||ns||shop||a"
	job, counter := recordOfJob(t, "shop", "a", 7, begin, 5)
	put(counterKey, counter)
	r.wantKeys("dapr/counters/")
	put(jobKey, job)
	if got := r.nextRun("shop", "a"); !got.Equal(begin) {
		t.Errorf("without a counter it runs at %v, want %v", got, begin)
	}
	_, another := recordOfJob(t, "shop", "a", 8, begin, 5)
	put(counterKey, another)
	if got := r.nextRun("shop", "a"); !got.Equal(begin) {
		t.Errorf("with the counter of another it runs at %v, want %v", got, begin)
	}
	put(counterKey, counter)
	if got, want := r.nextRun("shop", "a"), begin.Add(5*time.Hour); !got.Equal(want) {
		t.Errorf("with its counter it runs at %v, want %v", got, want)
	}
	if got := r.get(counterKey).Kvs[0].Value; string(got) != counter {
		t.Errorf("its counter is %x, want %x", got, counter)
	}
	if got := r.get(jobKey).Kvs[0].Value; len(got) == 0 {
		t.Error("the job has no record")
	}
	r.schedule(appOf("ns", "shop"), "a", far()) // it is another from now on
	put(counterKey, counter)
	r.wantKeys("dapr/counters/")
}

// TestAJobThatNeverFiresAgainIsGone, as it is when a sidecar schedules it.
func TestAJobThatNeverFiresAgainIsGone(t *testing.T) {
	r := start(t, Options{})
	r.schedule(appOf("ns", "shop"), "a", far())
	m := &cronpb.StoredJob{PartitionId: 1, Begin: &cronpb.StoredJob_DueTime{DueTime: timestamppb.New(time.Unix(1e9, 0))},
		Expiration: timestamppb.New(time.Unix(1e9+60, 0)),
		Job:        &cronpb.JobSpec{Schedule: new("@every 1h"), Repeats: new(uint32(3)), Metadata: mustAny(t, appOf("ns", "shop"))}}
	counter := mustEncode(t, &cronpb.Counter{JobPartitionId: 1, Count: 3, LastTrigger: timestamppb.New(time.Unix(1e9, 0))})
	r.write(2, map[string]string{"dapr/jobs/app||ns||shop||a": mustEncode(t, m), "dapr/counters/app||ns||shop||a": counter})
	r.wantKeys("dapr/jobs/")
}

// meanwhile does something right before a job is put for the first time.
type meanwhile struct {
	carillon.Scheduler
	do func()
}

func (m *meanwhile) PutJob(ctx context.Context, job carillon.Job, o ...carillon.PutOption) (carillon.PutResult, error) {
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return m.Scheduler.PutJob(ctx, job, o...)
}

// TestACounterUndoesNothing: a job that is changed in the moment in which its counter is put is looked at again,
// and one that Dapr's record does not tell all of stays as it is.
func TestACounterUndoesNothing(t *testing.T) {
	r := start(t, Options{})
	job, counter := recordOfJob(t, "shop", "a", 7, time.Now().Add(time.Hour), 5)
	key := carillon.Key{Namespace: "ns", Name: "dapr/app/shop/a"}
	jobs := &meanwhile{Scheduler: r.jobs}
	calls := kvServer{s: New(jobs, r.node.EachJob, r.node.Cluster().WatchNodes, Options{})}
	if _, err := calls.Put(t.Context(), &pb.PutRequest{Key: []byte("dapr/jobs/app||ns||shop||a"), Value: []byte(job)}); err != nil {
		t.Fatal(err)
	}
	jobs.do = func() {
		patch := carillon.Patch{Fields: []string{"overlap"}, Job: carillon.Job{Overlap: carillon.OverlapSkip}}
		if _, err := r.jobs.PatchJob(t.Context(), key, patch); err != nil {
			t.Error(err)
		}
	}
	_, err := calls.Put(t.Context(), &pb.PutRequest{Key: []byte("dapr/counters/app||ns||shop||a"), Value: []byte(counter)})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(fmt.Sprint(err), "overlap") {
		t.Errorf("the counter of a job that skips runs: %v", err)
	}
	if got, err := r.jobs.GetJob(t.Context(), key); err != nil || got.Overlap != carillon.OverlapSkip {
		t.Errorf("it does not skip them any more: %v", err)
	}
}

// TestRefusedPuts: what would be lost, or is not a record, is refused by its key, and nothing of its
// transaction is done.
func TestRefusedPuts(t *testing.T) {
	r := start(t, Options{Operations: 4})
	good, counter := recordOfJob(t, "shop", "good", 1, time.Now().Add(time.Hour), 1)
	strange := good + "\x7a\x01x"
	nameless := mustEncode(t, &cronpb.StoredJob{Begin: &cronpb.StoredJob_Start{Start: timestamppb.Now()},
		Job: &cronpb.JobSpec{Schedule: new("@every 1h")}})
	cron := mustEncode(t, &cronpb.StoredJob{Begin: &cronpb.StoredJob_Start{Start: timestamppb.Now()},
		Job: &cronpb.JobSpec{Schedule: new("61 * * * * *"), Metadata: mustAny(t, appOf("ns", "shop"))}})
	first := clientv3.OpPut("dapr/jobs/app||ns||shop||good", good)
	for what, test := range map[string]struct {
		code codes.Code
		want string
		ops  []clientv3.Op
	}{
		"another key": {codes.InvalidArgument, `"elsewhere/a" is not one of dapr/jobs/…, dapr/counters/…`,
			[]clientv3.Op{first, clientv3.OpPut("elsewhere/a", good)}},
		"a scheduler's key": {codes.InvalidArgument, `"dapr/leadership/x"`, []clientv3.Op{first, clientv3.OpPut("dapr/leadership/x", good)}},
		"the key of another": {codes.InvalidArgument, `"dapr/jobs/app||ns||other||a": the key does not begin with "app||ns||shop||"`,
			[]clientv3.Op{first, clientv3.OpPut("dapr/jobs/app||ns||other||a", good)}},
		"no record":               {codes.InvalidArgument, "cannot be read", []clientv3.Op{first, clientv3.OpPut("dapr/jobs/app||ns||shop||a", "\xff")}},
		"unknown fields":          {codes.InvalidArgument, "fields that this version does not know", []clientv3.Op{first, clientv3.OpPut("dapr/jobs/app||ns||shop||a", strange)}},
		"nobody's job":            {codes.InvalidArgument, "metadata", []clientv3.Op{first, clientv3.OpPut("dapr/jobs/app||ns||shop||a", nameless)}},
		"a schedule that is none": {codes.InvalidArgument, "second", []clientv3.Op{first, clientv3.OpPut("dapr/jobs/app||ns||shop||a", cron)}},
		"no counter":              {codes.InvalidArgument, "dapr/counters/app||ns||shop||a", []clientv3.Op{first, clientv3.OpPut("dapr/counters/app||ns||shop||a", "\xff")}},
		"a lease":                 {codes.Unimplemented, "leases", []clientv3.Op{first, clientv3.OpPut("dapr/counters/app||ns||shop||good", counter, clientv3.WithLease(9))}},
		"a value to be kept":      {codes.Unimplemented, "keeps the value", []clientv3.Op{first, clientv3.OpPut("dapr/counters/app||ns||shop||good", "", clientv3.WithIgnoreValue())}},
		"puts and deletes":        {codes.Unimplemented, "puts and others", []clientv3.Op{first, clientv3.OpDelete("dapr/jobs/app||ns||shop||a")}},
		"one within another":      {codes.Unimplemented, "within another", []clientv3.Op{first, clientv3.OpTxn(nil, nil, nil)}},
		"one key twice":           {codes.InvalidArgument, "duplicate key", []clientv3.Op{first, first}},
		"too many operations":     {codes.InvalidArgument, "too many operations", []clientv3.Op{first, first, first, first, first}},
	} {
		m := &pb.TxnRequest{}
		for _, op := range test.ops {
			m.Success = append(m.Success, requestOf(op))
		}
		_, err := pb.NewKVClient(r.etcd.ActiveConnection()).Txn(t.Context(), m)
		if status.Code(err) != test.code || !strings.Contains(fmt.Sprint(err), test.want) {
			t.Errorf("%s: %v, want %v with %s", what, err, test.code, test.want)
		}
	}
	_, err := r.etcd.Txn(t.Context()).If(clientv3.Compare(clientv3.Version("dapr/jobs/app||ns||shop||good"), "=", 0)).
		Then(first).Commit()
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("a condition: %v", err)
	}
	r.wantKeys("dapr/jobs/")
	if answer, err := r.etcd.Put(t.Context(), "dapr/jobs/app||ns||shop||good", good, clientv3.WithPrevKV()); err != nil || answer.PrevKv != nil {
		t.Errorf("the first put: %v, %v", answer, err)
	}
	if answer, err := r.etcd.Put(t.Context(), "dapr/jobs/app||ns||shop||good", good, clientv3.WithPrevKV()); err != nil || answer.PrevKv == nil {
		t.Errorf("the second put: %v, %v", answer, err)
	}
}

// requestOf is an operation as it is sent.
func requestOf(op clientv3.Op) *pb.RequestOp {
	switch {
	case op.IsTxn():
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{}}}
	case op.IsDelete():
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &pb.DeleteRangeRequest{Key: op.KeyBytes()}}}
	}
	m := &pb.PutRequest{Key: op.KeyBytes(), Value: op.ValueBytes()}
	if strings.HasPrefix(string(m.Key), "dapr/counters/app||ns||shop||good") {
		if m.IgnoreValue = len(m.Value) == 0; !m.IgnoreValue {
			m.Lease = 9
		}
	}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: m}}
}

// TestAJobThatDaprHasNoWordForIsShown as it was asked for: it is there, whatever has been done to it.
func TestAJobThatDaprHasNoWordForIsShown(t *testing.T) {
	r := start(t, Options{})
	r.schedule(appOf("ns", "shop"), "a", &schedulerpb.Job{Schedule: new("@every 1h")})
	key := carillon.Key{Namespace: "ns", Name: "dapr/app/shop/a"}
	if _, err := r.jobs.SetPaused(t.Context(), key, carillon.PauseOptions{Paused: true}); err != nil {
		t.Fatal(err)
	}
	m := new(cronpb.StoredJob)
	if err := proto.Unmarshal(r.get("dapr/jobs/app||ns||shop||a").Kvs[0].Value, m); err != nil || m.GetJob().GetSchedule() != "@every 1h" {
		t.Errorf("%v: %v", m, err)
	}
}
