package daprrecord_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	commonpb "github.com/carillonhq/carillon/api/dapr/proto/common/v1"
	cronpb "github.com/carillonhq/carillon/api/dapr/proto/cron/v1"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// now is when jobs come over.
var now = time.Date(2026, 11, 21, 11, 30, 0, 500_000_000, time.UTC)

// drawRecord draws a record such as Dapr's scheduler makes.
func drawRecord(t *rapid.T) daprrecord.Record {
	m := &pb.JobMetadata{Namespace: rapid.SampledFrom([]string{"default", "shop"}).Draw(t, "namespace"), AppId: "app",
		Target: &pb.JobTargetMetadata{Type: &pb.JobTargetMetadata_Job{Job: &pb.TargetJob{}}}}
	name := rapid.SampledFrom([]string{"", "a", "a||b", "ä:%", ".", "x|y"}).Draw(t, "name")
	a := must(daprrecord.AddressOf(m))
	if rapid.Bool().Draw(t, "reminder") {
		m.Target.Type = &pb.JobTargetMetadata_Actor{Actor: &pb.TargetActorReminder{Type: "T||", Id: "1||2"}}
		a = must(daprrecord.AddressOf(m))
	}
	if rapid.Bool().Draw(t, "limited") {
		m.ConcurrencyKey = new("key")
	}
	spec := &cronpb.JobSpec{Metadata: must(anypb.New(m)), FailurePolicy: drawPolicy(t)}
	if rapid.Bool().Draw(t, "payload") {
		spec.Payload = must(anypb.New(wrapperspb.String("hello")))
	}
	r := daprrecord.Record{Name: a.InDapr(name),
		Job: &cronpb.StoredJob{PartitionId: rapid.Uint64().Draw(t, "partition"), Job: spec}}
	drawTimes(t, &r)
	return r
}

func drawPolicy(t *rapid.T) *commonpb.JobFailurePolicy {
	constant := &commonpb.JobFailurePolicyConstant{}
	switch rapid.IntRange(0, 4).Draw(t, "policy") {
	case 0:
		return nil
	case 1:
		return &commonpb.JobFailurePolicy{}
	case 2:
		return &commonpb.JobFailurePolicy{Policy: &commonpb.JobFailurePolicy_Drop{Drop: &commonpb.JobFailurePolicyDrop{}}}
	case 3:
		constant.MaxRetries = new(uint32(rapid.IntRange(0, 5).Draw(t, "retries")))
		fallthrough
	default:
		if rapid.Bool().Draw(t, "interval") {
			constant.Interval = durationpb.New(time.Duration(rapid.IntRange(-1, 5).Draw(t, "seconds")) * time.Second)
		}
	}
	return &commonpb.JobFailurePolicy{Policy: &commonpb.JobFailurePolicy_Constant{Constant: constant}}
}

// drawTimes draws when the job runs, and how far it is.
func drawTimes(t *rapid.T, r *daprrecord.Record) {
	spec := r.Job.Job
	begin := now.Add(time.Duration(rapid.Int64Range(-1e13, 1e13).Draw(t, "begin")))
	r.Job.Begin = &cronpb.StoredJob_Start{Start: timestamppb.New(begin)}
	spec.Schedule = new(rapid.SampledFrom([]string{"@every 7s", "@every 1h30m", "0 */5 * * * *", "@daily", "@every 0s",
		"TZ=Europe/Berlin 30 0 9 */1 * *", "*/20 * * * * MON-FRI"}).Draw(t, "schedule"))
	if rapid.Bool().Draw(t, "due") {
		spec.DueTime = new(rapid.SampledFrom([]string{"10s", "P1M", begin.Format(time.RFC3339Nano)}).Draw(t, "due_time"))
		r.Job.Begin = &cronpb.StoredJob_DueTime{DueTime: timestamppb.New(begin)}
		if rapid.Bool().Draw(t, "once") {
			spec.Schedule = nil
			if rapid.Bool().Draw(t, "repeats once") {
				spec.Repeats = new(uint32(1))
			}
		}
	}
	if spec.Schedule != nil && rapid.Bool().Draw(t, "limit") {
		spec.Repeats = new(uint32(rapid.IntRange(1, 6).Draw(t, "repeats")))
	}
	if spec.Schedule != nil && rapid.Bool().Draw(t, "life") {
		spec.Ttl = new("5m")
		r.Job.Expiration = timestamppb.New(begin.Add(time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "ttl"))))
	}
	if rapid.Bool().Draw(t, "counted") {
		r.Counter = &cronpb.Counter{JobPartitionId: r.Job.PartitionId,
			Attempts: uint32(rapid.IntRange(0, 3).Draw(t, "attempts"))}
		if spec.Schedule != nil && rapid.Bool().Draw(t, "last") { // off the phase, as after a policy of drop
			r.Counter.LastTrigger = timestamppb.New(begin.Add(time.Duration(rapid.Int64Range(0, 1e13).Draw(t, "after"))))
		}
	}
}

// advance moves a record on as Dapr's scheduler does when a run has ended: next was its time.
func advance(r *daprrecord.Record, next time.Time) {
	if r.Counter == nil {
		r.Counter = &cronpb.Counter{JobPartitionId: r.Job.PartitionId}
	}
	r.Counter.Count++
	r.Counter.Attempts = 0
	r.Counter.LastTrigger = timestamppb.New(next)
}

// standing is a job of Carillon's as time passes.
type standing struct {
	job   carillon.Job
	first time.Time
	begun uint64
	over  bool
}

// put is the job as a node has it after a put.
func put(t *rapid.T, job carillon.Job) *standing {
	if err := job.Validate(carillon.Bounds{}); err != nil {
		t.Fatalf("the node would refuse it: %v", err)
	}
	_, next, _, err := plan.FirstRun(&job, must(job.ParseSchedule()), now)
	if err != nil {
		t.Fatalf("the node would refuse it: %v", err)
	}
	job.Status = &carillon.JobStatus{UID: carillon.UID{1, 2, 3}, Created: now, NextRun: next}
	return &standing{job: job, first: next}
}

// fire runs the job once.
func (s *standing) fire() {
	st, at := s.job.Status, s.job.Status.NextRun
	st.LastRun = &carillon.Run{Scheduled: at, Cause: carillon.CauseSchedule, Status: carillon.RunSucceeded}
	st.Counters.Succeeded++
	s.begun++
	sched := must(s.job.ParseSchedule())
	if s.over = sched == nil || s.job.Repeats != 0 && s.begun >= s.job.Repeats; s.over {
		return
	}
	next, ok := sched.Next(at, s.first)
	if _, end, _ := s.job.Life(now); !ok || !end.IsZero() && next.After(end) {
		s.over = true
	}
	st.NextRun = next
}

// TestAJobGoesOnAsItWould moves a job over after some runs, lets it run here, and looks at every step whether
// Dapr's scheduler would have gone on alike.
func TestAJobGoesOnAsItWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		for range rapid.IntRange(0, 3).Draw(t, "runs before") {
			next, err := r.Next()
			if err != nil {
				break
			}
			advance(&r, next)
		}
		job, err := r.ToJob()
		if _, none := r.Canonical(); none != nil {
			if !errors.Is(err, daprrecord.ErrOver) || !errors.Is(none, daprrecord.ErrOver) {
				t.Fatalf("it has no canonical form: %v; it becomes no job: %v", none, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		s := put(t, job)
		for range 4 {
			there, over := r.Canonical()
			if s.over != errors.Is(over, daprrecord.ErrOver) {
				t.Fatalf("it ends here: %t; there: %v", s.over, over)
			}
			if s.over {
				return
			}
			back, err := daprrecord.FromJob(&s.job)
			if err != nil {
				t.Fatal(err)
			}
			if here := must(back.Canonical()); !bytes.Equal(here, there) {
				t.Fatalf("it is %s\nas %v %v,\nnot %s\nas %v %v", here, back.Job, back.Counter, there, r.Job, r.Counter)
			}
			if !proto.Equal(daprrecord.ToDapr(&s.job), asked(&r)) {
				t.Fatalf("a sidecar is shown %v, not %v", daprrecord.ToDapr(&s.job), asked(&r))
			}
			advance(&r, s.job.Status.NextRun)
			s.fire()
		}
	})
}

// asked is the job as a sidecar put it.
func asked(r *daprrecord.Record) *pb.Job {
	s := r.Job.Job
	m := &pb.Job{Schedule: s.Schedule, DueTime: s.DueTime, Ttl: s.Ttl, Repeats: s.Repeats, Data: s.Payload,
		FailurePolicy: s.FailurePolicy}
	if s.FailurePolicy.GetPolicy() == nil {
		m.FailurePolicy = &commonpb.JobFailurePolicy{Policy: &commonpb.JobFailurePolicy_Drop{
			Drop: &commonpb.JobFailurePolicyDrop{}}}
	}
	return m
}

func TestRecordsAreReadAsTheyAreStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		job, counter, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		read, err := daprrecord.Decode(r.Name, job, counter)
		if err != nil || !proto.Equal(read.Job, r.Job) || !proto.Equal(read.Counter, r.Counter) {
			t.Fatalf("%v %v is read as %v %v: %v", r.Job, r.Counter, read.Job, read.Counter, err)
		}
	})
}

// whole is a record without a fault.
func whole() daprrecord.Record {
	m := &pb.JobMetadata{Namespace: "shop", AppId: "app", Target: &pb.JobTargetMetadata{
		Type: &pb.JobTargetMetadata_Job{Job: &pb.TargetJob{}}}}
	return daprrecord.Record{Name: "app||shop||app||a", Job: &cronpb.StoredJob{PartitionId: 7,
		Begin: &cronpb.StoredJob_Start{Start: timestamppb.New(now)},
		Job:   &cronpb.JobSpec{Schedule: new("@every 1m"), Metadata: must(anypb.New(m))}}}
}

func TestADamagedRecordSaysWhy(t *testing.T) {
	if _, err := daprrecord.Decode("a", []byte("no"), nil); err == nil || !strings.Contains(err.Error(), "job") {
		t.Errorf("bytes that are no job: %v", err)
	}
	if _, err := daprrecord.Decode("a", nil, []byte("no")); err == nil || !strings.Contains(err.Error(), "counter") {
		t.Errorf("bytes that are no counter: %v", err)
	}
	newer := append(must(proto.Marshal(whole().Job)), 0x7a, 1, 0) // field 15
	if _, err := daprrecord.Decode("a", newer, nil); err == nil || !strings.Contains(err.Error(), "does not know") {
		t.Errorf("a field of a later version: %v", err)
	}
	for want, harm := range map[string]func(*daprrecord.Record){
		"key":          func(r *daprrecord.Record) { r.Name = "app||other||app||a" },
		"metadata":     func(r *daprrecord.Record) { r.Job.Job.Metadata = nil },
		"begin":        func(r *daprrecord.Record) { r.Job.Begin = nil },
		"begin: ":      func(r *daprrecord.Record) { r.Job.GetStart().Nanos = -1 },
		"expiration":   func(r *daprrecord.Record) { r.Job.Expiration = &timestamppb.Timestamp{Nanos: -1} },
		"job.schedule": func(r *daprrecord.Record) { r.Job.Job.Schedule = new("never") },
		"job.repeats":  func(r *daprrecord.Record) { r.Job.Job.Repeats = new(uint32(0)) },
		"last_trigger": func(r *daprrecord.Record) {
			r.Counter = &cronpb.Counter{LastTrigger: &timestamppb.Timestamp{Nanos: -1}}
		},
		"due time": func(r *daprrecord.Record) { r.Job.Job.Schedule, r.Job.Job.DueTime = nil, new("1s") },
		"actor": func(r *daprrecord.Record) {
			r.Name = "actorreminder||shop||T||||a"
			r.Job.Job.Metadata = must(anypb.New(&pb.JobMetadata{Namespace: "shop", Target: &pb.JobTargetMetadata{
				Type: &pb.JobTargetMetadata_Actor{Actor: &pb.TargetActorReminder{Type: "T"}}}}))
		},
	} {
		r := whole()
		if _, err := r.ToJob(); err != nil {
			t.Fatalf("without a fault: %v", err)
		}
		harm(&r)
		if _, err := r.ToJob(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestACounterOfAnEarlierJobIsNone(t *testing.T) {
	r := whole()
	r.Counter = &cronpb.Counter{JobPartitionId: 8, Count: 3}
	job, counter, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if read := must(daprrecord.Decode(r.Name, job, counter)); read.Counter != nil {
		t.Errorf("it is %v", read.Counter)
	}
}

func TestWhatDaprCannotSayIsNamed(t *testing.T) {
	for field, change := range map[string]func(*carillon.Job){
		"target":         func(j *carillon.Job) { j.Target = carillon.WorkerQueue("q") },
		"paused":         func(j *carillon.Job) { j.Paused = true },
		"time_zone":      func(j *carillon.Job) { j.TimeZone = "Europe/Berlin" },
		"except":         func(j *carillon.Job) { j.Calendars.Except = []string{"a"} },
		"only":           func(j *carillon.Job) { j.Calendars.Only = []string{"a"} },
		"jitter":         func(j *carillon.Job) { j.Jitter = time.Second },
		"depends_on":     func(j *carillon.Job) { j.DependsOn = []string{"b"} },
		"overlap":        func(j *carillon.Job) { j.Overlap = carillon.OverlapAllow },
		"misfire":        func(j *carillon.Job) { j.Misfire = carillon.Misfire{} },
		"schedule":       func(j *carillon.Job) { j.Schedule = "*/5 * * * *" },
		"metadata":       func(j *carillon.Job) { j.Metadata = map[string]string{"dapr.schedule": j.Schedule + "\n"} },
		"failure_policy": func(j *carillon.Job) { j.FailurePolicy.Kind = carillon.PolicyExponential },
	} {
		r := whole()
		job := must(r.ToJob())
		job.Status = &carillon.JobStatus{Created: now, NextRun: now}
		if _, err := daprrecord.FromJob(&job); err != nil {
			t.Fatal(err)
		}
		change(&job)
		if _, err := daprrecord.FromJob(&job); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestAttemptsAreCounted: what failed there and here is what fails once.
func TestAttemptsAreCounted(t *testing.T) {
	r := whole()
	r.Counter = &cronpb.Counter{JobPartitionId: 7, Attempts: 2}
	job := must(r.ToJob())
	next := must(r.Next())
	if n := plan.AttemptsBefore(&job, next); n != 2 {
		t.Errorf("%d attempts were before", n)
	}
	for _, c := range []struct {
		run  carillon.Run
		want uint32
	}{
		{carillon.Run{Scheduled: next}, 2},
		{carillon.Run{Scheduled: next, Attempt: 1, Status: carillon.RunRunning}, 2},
		{carillon.Run{Scheduled: next, Attempt: 1, Status: carillon.RunRetrying}, 3},
		{carillon.Run{Scheduled: next.Add(time.Minute), Attempt: 1, Status: carillon.RunRetrying}, 1},
	} {
		job.Status = &carillon.JobStatus{Created: now, NextRun: next.Add(time.Hour), Current: &c.run}
		back := must(daprrecord.FromJob(&job))
		if got := back.Counter.GetAttempts(); got != c.want {
			t.Errorf("%v: %d attempts, not %d", c.run, got, c.want)
		}
		if got := must(back.Next()); !got.Equal(c.run.Scheduled) {
			t.Errorf("%v is next, not %v", got, c.run.Scheduled)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestMissedTimesOutlastALife: so many times were missed that the run which goes on is after the end of the
// life that became repeats. The job goes back with the runs that it has left, and no more.
func TestMissedTimesOutlastALife(t *testing.T) {
	m := &pb.JobMetadata{Namespace: "default", AppId: "app",
		Target: &pb.JobTargetMetadata{Type: &pb.JobTargetMetadata_Job{Job: &pb.TargetJob{}}}}
	r := daprrecord.Record{Name: must(daprrecord.AddressOf(m)).InDapr("a"), Job: &cronpb.StoredJob{
		Job: &cronpb.JobSpec{Metadata: must(anypb.New(m)), Schedule: new("@every 10s"), Ttl: new("25s"),
			DueTime: new("0s")},
		Begin:      &cronpb.StoredJob_DueTime{DueTime: timestamppb.New(now)},
		Expiration: timestamppb.New(now.Add(25 * time.Second))}}
	job := must(r.ToJob())
	late := now.Add(48 * time.Hour)
	job.Status = &carillon.JobStatus{Created: now, NextRun: late, Counters: carillon.Counters{Succeeded: 1}}
	back := must(daprrecord.FromJob(&job))
	for _, want := range []time.Time{late, late.Add(10 * time.Second)} {
		if next, err := back.Next(); err != nil || !next.Equal(want) {
			t.Errorf("the next run is at %v (%v), want %v", next, err, want)
		}
		advance(&back, want)
	}
	if next, err := back.Next(); !errors.Is(err, daprrecord.ErrOver) {
		t.Errorf("a run too many, at %v: %v", next, err)
	}
}
