package daprapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/carillonhq/carillon"
	common "github.com/carillonhq/carillon/api/dapr/proto/common/v1"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

func soon() *pb.Job { return &pb.Job{DueTime: new("0s")} }

func TestRunReachesItsSidecar(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.watchApp("app")
		data := &anypb.Any{TypeUrl: "bogus/none", Value: []byte{1, 2, 3}}
		r.put("A job:1", appOf("app"), &pb.Job{DueTime: new("0s"), Data: data})
		m := s.next()
		if m.GetName() != "A job:1" || !proto.Equal(m.GetData(), data) ||
			!proto.Equal(m.GetMetadata(), appOf("app")) {
			t.Errorf("got %v", m)
		}
		s.succeed(m.GetId())
		r.put("", appOf("app"), soon())
		if m := s.next(); m.GetName() != "" || m.Data != nil {
			t.Errorf("got %v", m)
		}
	})
}

// TestReminders: they go to whoever hosts the type, whichever app asked for them.
func TestReminders(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.watch(&pb.WatchJobsRequestInitial{AppId: "host", Namespace: "default",
			ActorTypes: []string{"My Type"}})
		m := actorOf("My Type", "id||1")
		m.ConcurrencyKey = new("SendEmail")
		r.put("wake", m, soon())
		if got := s.next(); got.GetName() != "wake" || !proto.Equal(got.GetMetadata(), m) {
			t.Errorf("got %v", got)
		}
	})
}

// TestAcceptedTypes: a sidecar gets only what it takes.
func TestAcceptedTypes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		in := func(types ...pb.JobTargetType) *pb.WatchJobsRequestInitial {
			return &pb.WatchJobsRequestInitial{AppId: "app", Namespace: "default", ActorTypes: []string{"t"},
				AcceptJobTypes: types}
		}
		jobs, actors := r.watch(in(0)), r.watch(in(1))
		for range 5 {
			r.put("j", appOf("app"), soon())
			jobs.succeed(jobs.expect("j"))
			r.put("r", actorOf("t", "i"), soon())
			actors.succeed(actors.expect("r"))
			synctest.Wait()
		}
	})
}

// TestStaging: what is due without a sidecar waits for one, and no attempt is used.
func TestStaging(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		job := soon()
		job.FailurePolicy = &common.JobFailurePolicy{Policy: &common.JobFailurePolicy_Drop{Drop: &common.JobFailurePolicyDrop{}}}
		r.put("waiting", appOf("app"), job)
		other := r.watchApp("other")
		time.Sleep(time.Hour)
		begin := time.Now()
		s := r.watchApp("app")
		id := s.expect("waiting")
		sameTime(t, "the run", begin, 0)
		s.succeed(id)
		other.cancel()
	})
}

// TestLostStream: what it held is delivered elsewhere at once, and no attempt is used.
func TestLostStream(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		job := soon()
		job.FailurePolicy = &common.JobFailurePolicy{Policy: &common.JobFailurePolicy_Drop{Drop: &common.JobFailurePolicyDrop{}}}
		first := r.watchApp("app")
		r.put("n", appOf("app"), job)
		first.expect("n")
		begin := time.Now()
		first.cancel()
		second := r.watchApp("app")
		second.expect("n")
		third := r.watchApp("app")
		if err := second.stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		third.succeed(third.expect("n"))
		sameTime(t, "the run", begin, 0)
		synctest.Wait()
		if r.get("n", appOf("app")) != nil {
			t.Error("the job is still there")
		}
	})
}

func TestRetriesByDefault(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.watchApp("app")
		begin := time.Now()
		r.put("failing", appOf("app"), soon())
		for i := range 4 {
			id := s.expect("failing")
			sameTime(t, "an attempt", begin, time.Duration(i)*time.Second)
			s.fail(id)
		}
		synctest.Wait()
		if r.get("failing", appOf("app")) != nil {
			t.Error("the job is still there")
		}
	})
}

// TestRetriesAreVirtual: the k-th retry is due k intervals after the run was, however long attempts take.
func TestRetriesAreVirtual(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.watchApp("app")
		begin := time.Now()
		job := soon()
		job.FailurePolicy = constant(durationpb.New(10*time.Second), nil)
		r.put("n", appOf("app"), job)
		for i, took := range []time.Duration{0, 7 * time.Second, 15 * time.Second, 0, 0} {
			id := s.expect("n")
			want := time.Duration(i) * 10 * time.Second
			if i == 3 {
				want += 5 * time.Second // the one before was still going
			}
			sameTime(t, fmt.Sprint("attempt ", i+1), begin, want)
			time.Sleep(took)
			s.fail(id)
		}
	})
}

// TestFailedTimesOfASchedule: a time that is given up does not move the others.
func TestFailedTimesOfASchedule(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.watchApp("app")
		begin := time.Now()
		r.put("n", appOf("app"), &pb.Job{Schedule: new("@every 10s"), Repeats: new(uint32(2)),
			FailurePolicy: constant(durationpb.New(time.Second), new(uint32(1)))})
		for _, at := range []time.Duration{10 * time.Second, 11 * time.Second, 20 * time.Second, 21 * time.Second} {
			id := s.expect("n")
			sameTime(t, "an attempt", begin, at)
			s.fail(id)
		}
		synctest.Wait()
		if r.get("n", appOf("app")) != nil {
			t.Error("the job is still there after its repeats")
		}
	})
}

// TestDueTimeAndSchedule: the first run is at the due time, whether or not the schedule has it.
func TestDueTimeAndSchedule(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) { // the bubble begins at midnight
		s := r.watchApp("app")
		begin := time.Now()
		r.put("n", appOf("app"), &pb.Job{Schedule: new("0 */10 * * * *"), DueTime: new("90s"),
			Repeats: new(uint32(3))})
		for _, at := range []time.Duration{90 * time.Second, 10 * time.Minute, 20 * time.Minute} {
			id := s.expect("n")
			sameTime(t, "a run", begin, at)
			s.succeed(id)
		}
		synctest.Wait()
		if r.get("n", appOf("app")) != nil {
			t.Error("the job is still there after its repeats")
		}
	})
}

// TestAlwaysDue: without an interval runs come one after the other.
func TestAlwaysDue(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.watchApp("app")
		r.put("n", appOf("app"), &pb.Job{Schedule: new("@every 0s"), DueTime: new("0s"), Repeats: new(uint32(3))})
		for range 3 {
			s.succeed(s.expect("n"))
		}
		synctest.Wait()
		if r.get("n", appOf("app")) != nil {
			t.Error("the job is still there after its repeats")
		}
	})
}

// TestMissedTimes: all of them are made up for, one at a time; those of a life that is over, too.
func TestMissedTimes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		now := time.Now()
		at := func(d time.Duration) *string { return new(now.Add(d).UTC().Format(time.RFC3339)) }
		for _, job := range []*pb.Job{
			{Schedule: new("@every 1m"), DueTime: at(-5 * time.Minute), Repeats: new(uint32(6))},
			{Schedule: new("0 * * * * *"), DueTime: at(-10 * time.Minute), Ttl: new("5m")},
		} {
			s := r.watchApp("app")
			r.put("n", appOf("app"), job)
			shown := r.get("n", appOf("app"))
			if shown == nil || shown.GetTtl() != job.GetTtl() || shown.GetRepeats() != job.GetRepeats() {
				t.Errorf("put %v, there is %v", job, shown)
			}
			for range 6 {
				s.succeed(s.expect("n"))
			}
			synctest.Wait()
			if r.get("n", appOf("app")) != nil {
				t.Errorf("%v is still there", job)
			}
			s.cancel()
			synctest.Wait()
		}
	})
}

// TestOverwrite: times and counts begin again, and the unfinished run of the old job counts no more.
func TestOverwrite(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.watchApp("app")
		job := &pb.Job{Schedule: new("@every 10s"), Repeats: new(uint32(2))}
		r.put("n", appOf("app"), job)
		old := s.expect("n")
		time.Sleep(5 * time.Second)
		begin := time.Now()
		if _, err := r.client.ScheduleJob(t.Context(), &pb.ScheduleJobRequest{
			Name: "n", Metadata: appOf("app"), Job: job, Overwrite: true}); err != nil {
			t.Fatal(err)
		}
		s.succeed(old)
		for i := range 2 {
			id := s.expect("n")
			sameTime(t, "a run", begin, time.Duration(i+1)*10*time.Second)
			s.succeed(id)
		}
		synctest.Wait()
		if r.get("n", appOf("app")) != nil {
			t.Error("the job is still there after its repeats")
		}
	})
}

// TestDeletedWhileRunning: its result is taken in silence.
func TestDeletedWhileRunning(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.watchApp("app")
		r.put("n", appOf("app"), soon())
		id := s.expect("n")
		if _, err := r.client.DeleteJob(t.Context(),
			&pb.DeleteJobRequest{Name: "n", Metadata: appOf("app")}); err != nil {
			t.Fatal(err)
		}
		s.fail(id)
		r.put("next", appOf("app"), soon())
		s.expect("next")
	})
}

// TestConcurrencyLimits: no more of a type, and of a key, are in flight at a time.
func TestConcurrencyLimits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		limit := func(n int32, name *string) *pb.ConcurrencyLimit {
			return &pb.ConcurrencyLimit{MaxConcurrent: n, Name: name,
				Target: &pb.ConcurrencyLimit_Actor{Actor: &pb.ConcurrencyLimitActor{Type: "t"}}}
		}
		s := r.watch(&pb.WatchJobsRequestInitial{AppId: "app", Namespace: "default", ActorTypes: []string{"t"},
			ConcurrencyLimits: []*pb.ConcurrencyLimit{limit(2, nil), limit(1, new("k")), limit(0, nil),
				{MaxConcurrent: 1}}})
		for i := range 6 {
			m := actorOf("t", fmt.Sprint(i))
			if i%2 == 0 {
				m.ConcurrencyKey = new("k")
			}
			r.put("n", m, soon())
		}
		got := make(chan *pb.WatchJobsResponse, 6)
		go func() {
			for {
				m, err := s.stream.Recv()
				if err != nil {
					close(got)
					return
				}
				got <- m
			}
		}()
		seen := map[string]bool{}
		var held []*pb.WatchJobsResponse
		for len(seen) < 6 {
			synctest.Wait()
			for len(got) > 0 {
				m := <-got
				held = append(held, m)
				seen[m.GetMetadata().GetTarget().GetActor().GetId()] = true
			}
			keyed := 0
			for _, m := range held {
				if m.GetMetadata().ConcurrencyKey != nil {
					keyed++
				}
			}
			if len(held) == 0 || len(held) > 2 || keyed > 1 {
				t.Fatalf("%d in flight, %d with the key", len(held), keyed)
			}
			s.succeed(held[0].GetId())
			held = held[1:]
		}
		s.cancel()
	})
}

// TestDeafSidecar: one that does not read loses its stream, and holds up nobody meanwhile.
func TestDeafSidecar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "memory:", Options{StallTimeout: 10 * time.Second})
		r.watchApp("deaf")
		good := r.watchApp("good")
		for i := range 40 {
			r.put(fmt.Sprint("n", i), appOf("deaf"), &pb.Job{DueTime: new("0s"),
				Data: &anypb.Any{TypeUrl: "t", Value: make([]byte, 500<<10)}})
		}
		begin := time.Now()
		r.put("n", appOf("good"), soon())
		good.succeed(good.expect("n"))
		sameTime(t, "the other's run", begin, 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		again := r.watchApp("deaf")
		names := map[string]bool{}
		for len(names) < 40 {
			m := again.next()
			names[m.GetName()] = true
			again.succeed(m.GetId())
		}
		r.stop()
	})
}

// TestLeavingNode: runs in flight may end before the streams do.
func TestLeavingNode(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s, idle := r.watchApp("app"), r.watchApp("idle")
		hosts, err := r.client.WatchHosts(t.Context(), &pb.WatchHostsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := hosts.Recv(); err != nil || len(m.GetHosts()) != 1 {
			t.Errorf("hosts %v, %v", m, err)
		}
		r.put("n", appOf("app"), soon())
		id := s.expect("n")
		var drained sync.WaitGroup
		drained.Go(func() {
			if err := r.node.Drain(t.Context()); err != nil {
				t.Errorf("drain: %v", err)
			}
		})
		if err := idle.end(); status.Code(err) != codes.Unavailable {
			t.Errorf("the idle stream ended with %v", err)
		}
		time.Sleep(5 * time.Second)
		s.succeed(id)
		if err := s.end(); status.Code(err) != codes.Unavailable {
			t.Errorf("the stream ended with %v", err)
		}
		drained.Wait()
		r.stop()
		if _, err := hosts.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("the stream of hosts ended with %v", err)
		}
	})
}

// TestHosts: they are said at once, and when they change.
func TestHosts(t *testing.T) {
	var mu sync.Mutex
	addresses, changed := []string{"a:1"}, make(chan struct{})
	r := start(t, "memory:", Options{Hosts: func(context.Context) ([]string, <-chan struct{}) {
		mu.Lock()
		defer mu.Unlock()
		return addresses, changed
	}})
	stream, err := r.client.WatchHosts(t.Context(), &pb.WatchHostsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want ...string) {
		t.Helper()
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range m.GetHosts() {
			got = append(got, h.GetAddress())
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	expect("a:1")
	mu.Lock()
	before := changed
	addresses, changed = []string{"a:1", "b:2"}, make(chan struct{})
	mu.Unlock()
	close(before)
	expect("a:1", "b:2")
}

// TestKilledNode: what was in flight when the node ended is delivered again by its next life, and no attempt
// is used.
func TestKilledNode(t *testing.T) {
	store := "pebble:" + t.TempDir()
	r := start(t, store, Options{})
	job := soon()
	job.FailurePolicy = &common.JobFailurePolicy{Policy: &common.JobFailurePolicy_Drop{Drop: &common.JobFailurePolicyDrop{}}}
	const jobs = 50
	s := r.watchApp("app")
	for i := range jobs {
		r.put(fmt.Sprint("n", i), appOf("app"), job)
	}
	for range jobs {
		s.next()
	}
	r.stop()
	if err := s.end(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}

	r = start(t, store, Options{})
	s = r.watchApp("app")
	names := map[string]bool{}
	for range jobs {
		m := s.next()
		names[m.GetName()] = true
		s.succeed(m.GetId())
	}
	if len(names) != jobs {
		t.Errorf("%d jobs came again, want %d", len(names), jobs)
	}
}

// counts is Metrics that remembers.
type counts struct {
	mu   sync.Mutex
	seen map[string]int
}

func (c *counts) add(parts ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	c.seen[strings.Join(parts, " ")]++
}

func (c *counts) Count(counter, label string) {
	c.add(strings.TrimPrefix(counter, "dapr_scheduler_"), label)
}
func (c *counts) Took(kind string, d time.Duration) { c.add("latency", kind, d.String()) }
func (c *counts) Sidecars(n int)                    { c.add(fmt.Sprint("sidecars ", n)) }

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counts{}
		r := start(t, "memory:", Options{Metrics: c})
		s := r.watch(&pb.WatchJobsRequestInitial{AppId: "app", Namespace: "default", ActorTypes: []string{"t"}})
		r.put("n", appOf("app"), soon())
		id := s.expect("n")
		time.Sleep(time.Second)
		s.succeed(id)
		r.put("n", actorOf("t", "i"), soon())
		s.fail(s.expect("n"))
		s.expect("n")
		_, _ = r.client.ScheduleJob(t.Context(),
			&pb.ScheduleJobRequest{Name: "n", Metadata: appOf("app"), Job: &pb.Job{}})
		_, _ = r.client.ScheduleJob(t.Context(), &pb.ScheduleJobRequest{Name: "n", Job: &pb.Job{}})
		_, _ = r.client.DeleteJob(t.Context(), &pb.DeleteJobRequest{Name: "n", Metadata: actorOf("t", "i")})
		_, _ = r.client.DeleteByNamePrefix(t.Context(), &pb.DeleteByNamePrefixRequest{Metadata: appOf("app")})
		s.succeed(999)
		if err := s.end(); status.Code(err) != codes.Canceled {
			t.Errorf("the stream ended with %v", err)
		}
		r.stop()
		want := []string{"jobs_bulk_deleted_total ", "jobs_created_failed_total job", "jobs_created_total actor",
			"jobs_created_total job", "jobs_deleted_total actor", "jobs_failed_total actor",
			"jobs_triggered_total job", "jobs_undelivered_total actor", "latency actor 0s", "latency job 1s",
			"sidecar_errors_total auth_failed", "sidecar_errors_total recv_failed", "sidecars -1", "sidecars 1"}
		var got []string
		for what, n := range c.seen {
			if got = append(got, what); n != 1 {
				t.Errorf("%s was counted %d times", what, n)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("counted %q, want %q", got, want)
		}
	})
}

// TestNativeTrigger: a run that was asked for through Carillon's own API reaches the sidecar like any other.
func TestNativeTrigger(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.watchApp("app")
		r.put("n", appOf("app"), far())
		if _, err := r.jobs.TriggerJob(t.Context(),
			carillon.Key{Namespace: "default", Name: "dapr/app/app/n"}); err != nil {
			t.Fatal(err)
		}
		s.succeed(s.expect("n"))
		if r.get("n", appOf("app")) == nil {
			t.Error("the job is gone")
		}
	})
}
