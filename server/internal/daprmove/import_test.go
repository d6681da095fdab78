package daprmove_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/carillonhq/carillon"
	commonpb "github.com/carillonhq/carillon/api/dapr/proto/common/v1"
	cronpb "github.com/carillonhq/carillon/api/dapr/proto/cron/v1"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/daprmove"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
	"github.com/carillonhq/carillon/server/internal/dispatch/sidecar"
	"github.com/carillonhq/carillon/server/internal/server"
	_ "github.com/carillonhq/carillon/server/store/memory"
)

// node starts a node in the bubble.
func node(t *testing.T) *server.Node {
	t.Helper()
	n, err := server.Start(t.Context(), server.Config{Store: "memory:", Partitions: 4})
	check(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		check(t, n.Close(ctx))
	})
	return n
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// record is a job of the app.
func record(name string, spec *cronpb.JobSpec, begin time.Time, fires bool) daprrecord.Record {
	m := &pb.JobMetadata{Namespace: "default", AppId: "app",
		Target: &pb.JobTargetMetadata{Type: &pb.JobTargetMetadata_Job{Job: &pb.TargetJob{}}}}
	spec.Metadata, _ = anypb.New(m)
	r := daprrecord.Record{Name: "app||default||app||" + name, Job: &cronpb.StoredJob{PartitionId: 7, Job: spec,
		Begin: &cronpb.StoredJob_Start{Start: timestamppb.New(begin)}}}
	if fires {
		r.Job.Begin = &cronpb.StoredJob_DueTime{DueTime: timestamppb.New(begin)}
	}
	return r
}

// counted is the record after some runs, the last of which was at a time.
func counted(r daprrecord.Record, count, attempts uint32, last time.Time) daprrecord.Record {
	r.Counter = &cronpb.Counter{JobPartitionId: 7, Count: count, Attempts: attempts, LastTrigger: timestamppb.New(last)}
	return r
}

// some are jobs of each kind, as they were a minute ago, and the offsets in seconds from then at which each
// fires within five minutes.
func some() (s *daprmove.State, fires map[string][]int) {
	then := time.Now().Add(-time.Minute)
	at := func(seconds int) time.Time { return then.Add(time.Duration(seconds) * time.Second) }
	every := func(text string) *cronpb.JobSpec { return &cronpb.JobSpec{Schedule: &text} }
	limited, living := every("@every 50s"), every("@every 20s")
	limited.Repeats, living.Ttl = new(uint32(5)), new("3h")
	short := record("life", living, at(-7), false)
	short.Job.Expiration = timestamppb.New(at(40))
	s = &daprmove.State{ID: "some", Origin: "here", Records: []daprrecord.Record{
		record("late", &cronpb.JobSpec{DueTime: new("10s")}, at(10), true),
		record("soon", &cronpb.JobSpec{DueTime: new("2m")}, at(120), true),
		counted(record("phase", every("@every 45s"), at(-100), false), 3, 0, at(-3)),
		counted(record("left", limited, at(-200), true), 3, 0, at(-20)),
		short, // it ends before it comes here, and was late then
	}}
	return s, map[string][]int{"late": {10}, "soon": {120}, "phase": {42, 87, 132, 177, 222, 267}, "left": {30, 80},
		"life": {13, 33}}
}

// TestAttemptsBeforeCount: of a run whose first attempts failed there, only the rest are made here; a later run has all.
func TestAttemptsBeforeCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		every := "@every 1m"
		then := time.Now()
		state := &daprmove.State{ID: "tries", Records: []daprrecord.Record{counted(record("a",
			&cronpb.JobSpec{Schedule: &every, FailurePolicy: policy}, then, false), 2, 3, then)}}
		report, err := daprmove.Import(t.Context(), n.Scheduler(), state, silent)
		check(t, err)
		if !report.Whole() {
			t.Errorf("the report is %+v", report)
		}
		had := connect(t, n)
		had.mu.Lock()
		had.fails = true
		had.mu.Unlock()
		time.Sleep(150 * time.Second)
		synctest.Wait()
		had.mu.Lock()
		defer had.mu.Unlock()
		for offset, want := range map[int]int{1: 2, 2: 5} { // four retries
			key := fmt.Sprint("a ", then.Add(time.Duration(offset)*time.Minute).UTC())
			if had.had[key] != want {
				t.Errorf("%s: %d attempts, not %d", key, had.had[key], want)
			}
		}
	})
}

var policy = &commonpb.JobFailurePolicy{Policy: &commonpb.JobFailurePolicy_Constant{
	Constant: &commonpb.JobFailurePolicyConstant{Interval: durationpb.New(time.Second), MaxRetries: new(uint32(4))}}}

// runs collects what a sidecar was handed: how often each (job, time).
type runs struct {
	mu    sync.Mutex
	had   map[string]int
	fails bool // every attempt
}

// connect has a sidecar take all runs until the test ends.
func connect(t *testing.T, n *server.Node) *runs {
	t.Helper()
	s, err := sidecar.Open(n.Hub(), n, sidecar.Hello{Namespace: "default", AppID: "app", Jobs: true}, sidecar.Options{})
	check(t, err)
	r := &runs{had: map[string]int{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			ds, err := s.Receive(context.Background())
			if err != nil {
				return
			}
			for _, d := range ds {
				r.mu.Lock()
				r.had[fmt.Sprint(daprrecord.NameOf(d.Run.Job), " ", d.Run.Scheduled.UTC())]++
				ok := !r.fails
				r.mu.Unlock()
				if err := s.Result(d.ID, ok, ""); err != nil {
					return
				}
			}
		}
	}()
	t.Cleanup(func() {
		check(t, s.Close())
		<-ended
	})
	return r
}

// want compares what a sidecar was handed with what is due: each once.
func (r *runs) want(t *testing.T, begun time.Time, fires map[string][]int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := 0
	for name, offsets := range fires {
		for _, o := range offsets {
			all++
			key := fmt.Sprint(name, " ", begun.Add(time.Duration(o-60)*time.Second).UTC())
			if r.had[key] != 1 {
				t.Errorf("%s: %d runs", key, r.had[key])
			}
		}
	}
	if len(r.had) != all {
		t.Errorf("there were %d runs, not %d: %v", len(r.had), all, r.had)
	}
}

func silent(string, int, int) {}

func TestJobsFireAsTheyWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		begun := time.Now()
		state, fires := some()
		report, err := daprmove.Import(t.Context(), n.Scheduler(), state, silent)
		check(t, err)
		if !report.Whole() || report.Here.Jobs != 5 || report.Before {
			t.Errorf("the report is %+v", report)
		}
		had := connect(t, n)
		time.Sleep(4*time.Minute - time.Second)
		synctest.Wait()
		had.want(t, begun, fires)
	})
}

// TestAnImportMayEndAnywhere ends it after every few calls, later and later, while a sidecar takes runs: every
// run comes once.
func TestAnImportMayEndAnywhere(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			chance := &chance{Rand: rand.New(rand.NewPCG(seed, 0))}
			n := node(t)
			begun := time.Now()
			state, fires := some()
			for i := range 20 { // they end as soon as they are let go
				name := fmt.Sprint("once", i)
				state.Records = append(state.Records, record(name, &cronpb.JobSpec{DueTime: new("1s")}, begun, true))
				fires[name] = []int{60}
			}
			had := connect(t, n)
			ends := 0
			for {
				ctx, die := context.WithCancel(t.Context())
				report, err := daprmove.Import(ctx, newMortal(n, die, chance, 40+int64(ends)), state, silent)
				die()
				if err == nil {
					if !report.Whole() {
						t.Errorf("the report is %+v", report)
					}
					break
				}
				if ends++; ends > 200 || !errors.Is(err, context.Canceled) {
					t.Fatalf("after %d ends: %v", ends, err)
				}
			}
			again, err := daprmove.Import(t.Context(), n.Scheduler(), state, silent)
			check(t, err)
			if !again.Before || !again.Whole() {
				t.Errorf("the next report is %+v", again)
			}
			time.Sleep(time.Until(begun.Add(4*time.Minute - time.Second)))
			synctest.Wait()
			if time.Since(begun) > 4*time.Minute {
				return // it took longer than what is compared
			}
			had.want(t, begun, fires)
		})
	}
}

func TestOneOfSeveralImports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		begun := time.Now()
		state, fires := some()
		had := connect(t, n)
		var all sync.WaitGroup
		var did atomic.Int64
		for range 3 {
			all.Go(func() {
				report, err := daprmove.Import(t.Context(), n.Scheduler(), state, silent)
				if err != nil || !report.Whole() {
					t.Errorf("%+v, %v", report, err)
				} else if !report.Before {
					did.Add(1)
				}
			})
		}
		all.Wait()
		if did.Load() != 1 {
			t.Errorf("%d of them did it", did.Load())
		}
		time.Sleep(time.Until(begun.Add(4*time.Minute - time.Second)))
		synctest.Wait()
		had.want(t, begun, fires)
	})
}

func TestWhatIsHereStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		state, _ := some()
		job, err := state.Records[1].ToJob()
		check(t, err)
		job.Note = "mine"
		_, err = n.Scheduler().PutJob(t.Context(), job)
		check(t, err)
		state.Faults = []daprmove.Fault{{Key: "dapr/jobs/torn", Err: errors.New("it is torn")}}
		report, err := daprmove.Import(t.Context(), n.Scheduler(), state, silent)
		check(t, err)
		if report.Whole() || len(report.Faults) != 2 || report.Here.Jobs != 4 ||
			!strings.Contains(report.Faults[1].Error(), "soon: job default/dapr/app/app/soon is here already") {
			t.Errorf("the report is %+v", report)
		}
		kept, err := n.Scheduler().GetJob(t.Context(), job.Key())
		check(t, err)
		_, err = n.Scheduler().DeleteJob(t.Context(), carillon.Key{Namespace: "default", Name: "dapr/app/app/late"})
		check(t, err)
		again, err := daprmove.Import(t.Context(), n.Scheduler(), state, silent)
		check(t, err)
		if again.Retried != 0 || again.Left != 2 || again.Whole() || again.Here != report.Here ||
			!strings.Contains(again.Faults[1].Error(), "a job of its name was here") {
			t.Errorf("the next report is %+v", again)
		}
		if kept.Note != "mine" || kept.Paused {
			t.Errorf("it has become %+v", kept)
		}
	})
}

// TestOneStateOfASchedulerComesIn: a member of its etcd that was behind still has jobs that have ended here since.
func TestOneStateOfASchedulerComesIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		begun := time.Now()
		state, fires := some()
		state.Cluster = "1"
		_, err := daprmove.Import(t.Context(), n.Scheduler(), state, silent)
		check(t, err)
		had := connect(t, n)
		time.Sleep(time.Minute)
		behind, _ := some()
		behind.ID, behind.Cluster = "behind", "1"
		if _, err := daprmove.Import(t.Context(), n.Scheduler(), behind, silent); !errors.Is(err, daprmove.ErrOtherState) {
			t.Errorf("it comes in: %v", err)
		}
		time.Sleep(3*time.Minute - time.Second)
		synctest.Wait()
		had.want(t, begun, fires)
	})
}

// narrow is a node that takes only small messages.
type narrow struct{ carillon.Scheduler }

func (n narrow) PutJob(ctx context.Context, j carillon.Job, o ...carillon.PutOption) (carillon.PutResult, error) {
	if len(j.Data.Bytes) > 2<<20 {
		return carillon.PutResult{}, carillon.Errorf(carillon.ResourceExhausted, "", "too large")
	}
	return n.Scheduler.PutJob(ctx, j, o...)
}

func TestAJobThatIsTooLargeIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		state, _ := some()
		big, err := anypb.New(wrapperspb.Bytes(make([]byte, 3<<20)))
		check(t, err)
		state.Records[1].Job.Job.Payload = big
		report, err := daprmove.Import(t.Context(), narrow{n.Scheduler()}, state, silent)
		check(t, err)
		if len(report.Faults) != 1 || !strings.Contains(report.Faults[0].Error(), "soon: invalid_argument: data") {
			t.Errorf("the report is %+v", report)
		}
	})
}
