package partition_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

func batchOf(names ...string) []message.PutRequest {
	var reqs []message.PutRequest
	for i, name := range names {
		j := carillon.Job{Namespace: carillon.DefaultNamespace, Name: name, Due: carillon.In(time.Hour),
			Target: carillon.WorkerQueue("q")}
		reqs = append(reqs, message.PutRequest{Job: &j, Random: [8]byte{byte(i + 1)}, At: epoch})
	}
	return reqs
}

// TestJobsPutTogetherComeIntoOneStoreBatch, also when one of them replaces a job whose delete is not durable
// yet.
func TestJobsPutTogetherComeIntoOneStoreBatch(t *testing.T) {
	for name, put := range map[string]func(m *partition.Machine) error{
		"in one partition": func(m *partition.Machine) error {
			_, _, err := m.Jobs.PutAll(epoch, batchOf("x", "a", "y"))
			return err
		},
		"across": func(m *partition.Machine) error {
			_, err := m.Jobs.ApplyShare(epoch, &message.Share{Batch: "id", Reqs: batchOf("x", "a", "y")})
			return err
		},
	} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a"})
		r.bring(keyOf("a"))
		if _, err := r.m.Jobs.Delete(r.now, keyOf("a")); err != nil {
			t.Fatal(err)
		}
		if err := put(r.m); err != nil {
			t.Fatal(err)
		}
		for {
			b, _ := r.m.Batch()
			if b == nil {
				t.Fatalf("%s: no batch holds the jobs", name)
			}
			if len(b.Puts) == 0 {
				continue
			}
			if len(b.Puts) != 3 || (name == "across") != (len(b.MetaRecords) == 1) {
				t.Errorf("%s: %d jobs and %d small records in the first batch", name, len(b.Puts), len(b.MetaRecords))
			}
			break
		}
	}
}

// TestAShareIsAppliedOnce replays shares around another caller's put and a restart.
func TestAShareIsAppliedOnce(t *testing.T) {
	r := newRig(t, partition.Config{})
	share := &message.Share{Batch: "id", Coordinator: 7, Reqs: batchOf("a", "b")}
	apply := func(late bool, answers int) {
		s := *share
		s.Late = late
		r.bring(keyOf("a"))
		r.bring(keyOf("b"))
		if puts, err := r.m.Jobs.ApplyShare(r.now, &s); err != nil || len(puts) != answers {
			t.Fatalf("%v %v, want %d", puts, err, answers)
		}
		r.flush()
	}
	r.now += int64(time.Minute)
	r.mustPut(carillon.Job{Name: "b", Note: "since", Due: carillon.In(time.Hour)})
	apply(true, 2)
	if j := r.job("b"); j.Note != "since" {
		t.Errorf("a late share has overwritten a later put: %+v", j)
	}
	if j := r.job("a"); !j.Status.NextRun.Equal(time.Unix(0, epoch).Add(time.Hour)) {
		t.Errorf("planned for %v, not as of the instant of the batch", j.Status.NextRun)
	}
	r.mustPut(carillon.Job{Name: "a", Note: "other", Due: carillon.In(time.Hour)})
	apply(false, 0)
	r.start()
	apply(false, 0)
	if j := r.job("a"); j.Note != "other" {
		t.Errorf("a replay has overwritten a later put: %+v", j)
	}
	if got := r.m.Applied.Coordinators(); len(got) != 1 || got["id"] != 7 {
		t.Errorf("marks %v", got)
	}
	r.m.Applied.Remove("id")
	r.flush()
	if left := r.small(store.KindApplied); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func (r *rig) job(name string) carillon.Job {
	r.t.Helper()
	r.bring(keyOf(name))
	j, err := r.m.Records.Job(keyOf(name))
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

// TestADeleteReachesRunsOfAnEarlierOwner and that are not in memory. So does a put that ends the
// attempts in force.
func TestADeleteReachesRunsOfAnEarlierOwner(t *testing.T) {
	for _, put := range []bool{false, true} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Lease: 2 * time.Hour, Timeout: 48 * time.Hour})
		for range 3 {
			r.trigger("a")
		}
		r.flush()
		ds := r.deliver(3)
		r.m.Attempts.KeepAll()
		r.flush()
		r.start()
		r.cancels = nil
		r.bring(keyOf("a"))
		var last uint64
		for refs := r.m.Records.Absent(keyOf("a"),
			0, 2); len(refs) > 0; refs = r.m.Records.Absent(keyOf("a"), last, 2) {
			r.m.Load(r.read(refs), r.now)
			last = refs[len(refs)-1].Seq
		}
		if put {
			r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Data: carillon.Bytes([]byte("new"), "")})
		} else if _, err := r.m.Jobs.Delete(r.now, keyOf("a")); err != nil {
			t.Fatal(err)
		}
		r.flush()
		for _, d := range ds {
			if !slices.ContainsFunc(r.cancels, func(c delivery.Cancel) bool { return c.Token == d.Run.Token }) {
				t.Errorf("put %v: %s is not told to stop", put, d.Run.ID)
			}
			if v := r.succeed(d); v != partition.Stale {
				t.Errorf("put %v: verdict %v", put, v)
			}
		}
		if h := r.history("a"); !put && len(h) != 3 {
			t.Errorf("%d of 3 runs are in the history as cancelled", len(h))
		}
	}
}

// TestABatchMayHoldAJobThatCouldNotBeginAnew has a job in a batch whose schedule is over while its last run
// goes on.
func TestABatchMayHoldAJobThatCouldNotBeginAnew(t *testing.T) {
	r := newRig(t, partition.Config{})
	old := carillon.Job{Namespace: carillon.DefaultNamespace, Name: "a", Schedule: "@every 10s",
		TTL: carillon.At(instant(epoch + 15e9)), Target: carillon.WorkerQueue("q")}
	r.mustPut(old)
	r.advance(10 * time.Second)
	d := r.deliver(1)[0]
	r.advance(10 * time.Second)
	other := carillon.Job{Namespace: carillon.DefaultNamespace, Name: "b", Target: carillon.WorkerQueue("q")}
	put := func(j carillon.Job) error {
		_, _, err := r.m.Jobs.PutAll(r.now, []message.PutRequest{{Job: &other}, {Job: &j}})
		r.flush()
		return err
	}
	if err := put(old); err != nil {
		t.Fatalf("unchanged: %v", err)
	}
	old.Data = carillon.Bytes([]byte("x"), "")
	if err := put(old); err != nil {
		t.Fatalf("with other data: %v", err)
	}
	before := r.jobs()
	old.Repeats = 7
	if err := put(old); err == nil {
		t.Fatal("with other times that are over")
	}
	if after := r.jobs(); len(after) != len(before) || after[0].State.Generation != before[0].State.Generation {
		t.Fatal("a refused batch has changed something")
	}
	if v := r.succeed(d); v != partition.Stale { // its content was changed
		t.Fatal(v)
	}
}
