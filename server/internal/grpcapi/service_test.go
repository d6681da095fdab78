package grpcapi

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/access"
)

// problemOf is the error that crossed the wire.
func problemOf(t *testing.T, err error) *carillon.Error {
	t.Helper()
	e, ok := errors.AsType[*carillon.Error](wire.ErrorFromStatus(err))
	if !ok {
		t.Fatalf("no error: %v", err)
	}
	return e
}

func TestPutJob(t *testing.T) {
	var got carillon.Job
	var options carillon.PutOptions
	c := dial(t, &stub{putJob: func(ctx context.Context, j carillon.Job, o carillon.PutOptions) (carillon.PutResult, error) {
		got, options = j, o
		put, err := stored(ctx, j, o)
		put.Warnings = []string{"watch out"}
		return put, err
	}}, Options{})
	reply, err := c.PutJob(t.Context(), &pb.PutJobRequest{Name: "a/b", IfAbsent: true,
		Job: &pb.Job{Schedule: "@daily", Status: &pb.JobStatus{Generation: 99}}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Key() != (carillon.Key{Namespace: "default", Name: "a/b"}) || got.Schedule != "@daily" ||
		got.Status != nil {
		t.Errorf("the scheduler got %+v", got)
	}
	if options != (carillon.PutOptions{IfAbsent: true}) {
		t.Errorf("options %+v", options)
	}
	if !reply.GetCreated() || reply.GetJob().GetStatus().GetGeneration() != 1 ||
		reply.GetWarnings()[0] != "watch out" {
		t.Errorf("reply %v", reply)
	}
}

// TestRefused: what the face itself refuses, with the field.
func TestRefused(t *testing.T) {
	c := dial(t, &stub{}, Options{})
	ctx := t.Context()
	calls := map[string]func() error{
		"job":  func() error { _, err := c.PutJob(ctx, &pb.PutJobRequest{Name: "x"}); return err },
		"name": func() error { _, err := c.GetJob(ctx, &pb.GetJobRequest{}); return err },
		"namespace": func() error {
			_, err := c.PutJob(ctx, &pb.PutJobRequest{Namespace: "a", Job: &pb.Job{Namespace: "b"}})
			return err
		},
		"if_absent": func() error {
			_, err := c.PutJob(ctx, &pb.PutJobRequest{Name: "x", Job: &pb.Job{}, IfAbsent: true, IfGeneration: 2})
			return err
		},
		"prefix":  func() error { _, err := c.DeleteJobs(ctx, &pb.DeleteJobsRequest{}); return err },
		"outcome": func() error { _, err := c.CompleteRun(ctx, &pb.CompleteRunRequest{Id: "x"}); return err },
		"jobs": func() error {
			_, err := c.BatchPutJobs(ctx, &pb.BatchPutJobsRequest{Jobs: make1001()})
			return err
		},
		"jobs[1].namespace": func() error {
			_, err := c.BatchPutJobs(ctx, &pb.BatchPutJobsRequest{Namespace: "a",
				Jobs: []*pb.Job{{}, {Namespace: "b"}}})
			return err
		},
		"phase":  func() error { _, err := c.ListJobs(ctx, &pb.ListJobsRequest{Phase: 77}); return err },
		"status": func() error { _, err := c.ListRuns(ctx, &pb.ListRunsRequest{Status: []pb.RunStatus{77}}); return err },
		"schedule": func() error {
			_, err := c.PreviewSchedule(ctx, &pb.PreviewScheduleRequest{Schedule: "61 * * * *"})
			return err
		},
		"from": func() error {
			_, err := c.PreviewSchedule(ctx,
				&pb.PreviewScheduleRequest{Schedule: "@daily", From: &timestamppb.Timestamp{Nanos: -1}})
			return err
		},
	}
	_, err := c.BatchPutJobs(ctx, &pb.BatchPutJobsRequest{Namespace: "a.b"})
	if e, ok := errors.AsType[*carillon.Error](wire.ErrorFromStatus(err)); !ok || e.Field != "namespace" {
		t.Errorf("an empty batch of a namespace that cannot be: %v", err)
	}
	for field, request := range map[string]*pb.StartBackfillRequest{
		"from": {Name: "x", From: &timestamppb.Timestamp{Nanos: -1}},
		"to":   {Name: "x", To: &timestamppb.Timestamp{Nanos: -1}}, "overlap": {Name: "x", Overlap: 77}, "name": {},
	} {
		calls[field] = func() error { _, err := c.StartBackfill(ctx, request); return err }
	}
	for field, request := range map[string]*pb.CompleteRunRequest{
		"progress":         {Outcome: pb.Outcome_OUTCOME_PROGRESS},
		"progress.percent": {Outcome: pb.Outcome_OUTCOME_PROGRESS, Progress: &pb.Progress{Percent: math.NaN()}},
		"at":               {Outcome: pb.Outcome_OUTCOME_RESCHEDULE},
	} {
		calls[field] = func() error { _, err := c.CompleteRun(ctx, request); return err }
	}
	for field, call := range calls {
		if e := problemOf(t, call()); e.Kind != carillon.InvalidArgument || e.Field != field {
			t.Errorf("%s: got %v", field, e)
		}
	}
}

// TestUnknownFields: a field of another version is refused by where it is, in calls and in streams; what came
// before it in a bulk load is stored.
func TestUnknownFields(t *testing.T) {
	c := dial(t, &stub{putJob: stored, putJobs: func(ctx context.Context, jobs []carillon.Job) ([]carillon.PutResult, error) {
		return make([]carillon.PutResult, len(jobs)), nil
	}}, Options{})
	job := &pb.Job{Target: &pb.Target{Kind: &pb.Target_Worker{Worker: &pb.WorkerTarget{Queue: "q"}}}}
	hello := &pb.Hello{Queues: []string{"q"}}
	for _, m := range []proto.Message{job.GetTarget(), hello} {
		m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
	}
	_, unary := c.PutJob(t.Context(), &pb.PutJobRequest{Name: "x", Job: job})
	load, err := c.PutJobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// an error comes with the answer
	_ = load.Send(&pb.PutJobsRequest{Jobs: []*pb.Job{{Name: "a"}, {Name: "b"}}})
	_ = load.Send(&pb.PutJobsRequest{Jobs: []*pb.Job{{Name: "c"}, job}})
	_, bulk := load.CloseAndRecv()
	work, err := c.Work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = work.Send(&pb.WorkRequest{Hello: hello})
	_, session := work.Recv()
	for at, err := range map[string]error{"job.target.99": unary, "jobs[1].target.99": bulk,
		"hello.99": session} {
		if e := problemOf(t, err); e.Kind != carillon.InvalidArgument || e.Field != at ||
			!strings.Contains(e.Message, "unknown field") {
			t.Errorf("%s: got %v", at, e)
		}
	}
	if e := problemOf(t, bulk); !strings.Contains(e.Message, "the 2 jobs sent in earlier messages are stored") {
		t.Errorf("got %v", e)
	}
}

func make1001() []*pb.Job {
	jobs := make([]*pb.Job, carillon.MaxBatch+1)
	for i := range jobs {
		jobs[i] = &pb.Job{}
	}
	return jobs
}

// TestPatch: the fields go to the scheduler as they came.
func TestPatch(t *testing.T) {
	var key carillon.Key
	var got carillon.Patch
	c := dial(t, &stub{patch: func(ctx context.Context, k carillon.Key, p carillon.Patch) (carillon.PutResult, error) {
		key, got = k, p
		return stored(ctx, p.Job, carillon.PutOptions{})
	}}, Options{})
	_, err := c.PatchJob(t.Context(), &pb.PatchJobRequest{Name: "x", Job: &pb.Job{Note: "n"},
		Fields: []string{"note", "labels"}, IfGeneration: 3})
	if err != nil || key != (carillon.Key{Namespace: "default", Name: "x"}) {
		t.Errorf("key %v, %v", key, err)
	}
	if !slices.Equal(got.Fields, []string{"note", "labels"}) || got.Job.Note != "n" || got.IfGeneration != 3 {
		t.Errorf("patch %+v", got)
	}
}

// TestPanic: a panic is an internal error, logged, and the process lives.
func TestPanic(t *testing.T) {
	var log bytes.Buffer
	c := dial(t, &stub{
		getJob:  func(context.Context, carillon.Key) (carillon.Job, error) { panic("boom") },
		connect: func(context.Context, carillon.Hello) (carillon.Session, error) { panic("bang") },
	}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, err := c.GetJob(t.Context(), &pb.GetJobRequest{Name: "x"})
	if e := problemOf(t, err); e.Kind != carillon.Internal || strings.Contains(e.Message, "boom") {
		t.Errorf("got %v", e)
	}
	w, err := c.Work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Send(&pb.WorkRequest{Hello: &pb.Hello{}}) // the error comes with Recv
	_, err = w.Recv()
	if e := problemOf(t, err); e.Kind != carillon.Internal {
		t.Errorf("got %v", e)
	}
	if !strings.Contains(log.String(), "boom") || !strings.Contains(log.String(), "bang") {
		t.Errorf("the log has only %s", log.String())
	}
}

// TestPanicOverACredential: the same while it is told who calls, by calls and streams.
func TestPanicOverACredential(t *testing.T) {
	var log bytes.Buffer
	gate := &access.Gate{Now: time.Now, Verify: func(context.Context, string) (*access.Token, error) { panic("ouch") }}
	c := dial(t, &stub{}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Access: gate})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer x")
	_, err := c.GetJob(ctx, &pb.GetJobRequest{Name: "x"})
	if e := problemOf(t, err); e.Kind != carillon.Internal || strings.Contains(e.Message, "ouch") {
		t.Errorf("got %v", e)
	}
	w, err := c.Work(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Recv()
	if e := problemOf(t, err); e.Kind != carillon.Internal || strings.Contains(e.Message, "ouch") {
		t.Errorf("got %v", e)
	}
	if strings.Count(log.String(), "panic: ouch") != 2 {
		t.Errorf("the log has only %s", log.String())
	}
}

// TestCauseFromGRPC: an error of ours is told as ours, even if another node's status caused it.
func TestCauseFromGRPC(t *testing.T) {
	c := dial(t, &stub{getJob: func(context.Context, carillon.Key) (carillon.Job, error) {
		return carillon.Job{}, carillon.Errorf(carillon.NotFound, "name", "gone: %w",
			status.Error(codes.Aborted, "there"))
	}}, Options{})
	_, err := c.GetJob(t.Context(), &pb.GetJobRequest{Name: "x"})
	if e := problemOf(t, err); e.Kind != carillon.NotFound || e.Field != "name" {
		t.Errorf("got %v", e)
	}
}

// TestDeadline: a caller without a deadline gets one, one with a deadline keeps it.
func TestDeadline(t *testing.T) {
	var left time.Duration
	c := dial(t, &stub{getJob: func(ctx context.Context, _ carillon.Key) (carillon.Job, error) {
		at, ok := ctx.Deadline()
		if !ok {
			t.Error("no deadline")
		}
		left = time.Until(at)
		return carillon.Job{}, nil
	}}, Options{CallTimeout: time.Hour})
	if _, err := c.GetJob(t.Context(), &pb.GetJobRequest{Name: "x"}); err != nil || left < 50*time.Minute {
		t.Errorf("%v left, %v", left, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	if _, err := c.GetJob(ctx, &pb.GetJobRequest{Name: "x"}); err != nil || left > 30*time.Minute {
		t.Errorf("%v left, %v", left, err)
	}
}

func TestMessageLimit(t *testing.T) {
	c := dial(t, &stub{putJob: stored}, Options{MaxMessage: 1000})
	_, err := c.PutJob(t.Context(), &pb.PutJobRequest{Name: "x", Job: &pb.Job{Data: make([]byte, 2000)}})
	if e := problemOf(t, err); e.Kind != carillon.ResourceExhausted || e.Unknown {
		t.Errorf("got %+v", e)
	}
}

func TestHealthAndReflection(t *testing.T) {
	conn := serve(t, &stub{}, Options{})
	for _, service := range []string{"", "carillon.v1.SchedulerService"} {
		reply, err := healthpb.NewHealthClient(conn).Check(t.Context(),
			&healthpb.HealthCheckRequest{Service: service})
		if err != nil || reply.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", service, reply, err)
		}
	}
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "carillon.v1.SchedulerService"},
	}); err != nil {
		t.Fatal(err)
	}
	reply, err := stream.Recv()
	if err != nil || reply.GetFileDescriptorResponse() == nil {
		t.Errorf("reflection: %v, %v", reply, err)
	}
}

func TestBulk(t *testing.T) {
	var names []string
	c := dial(t, &stub{putJobs: func(ctx context.Context, jobs []carillon.Job) ([]carillon.PutResult, error) {
		puts := make([]carillon.PutResult, len(jobs))
		for i, j := range jobs {
			if j.Name == "bad" {
				return nil, carillon.Errorf(carillon.InvalidArgument, "jobs[0].name", "is bad")
			}
			names = append(names, j.Name)
			puts[i], _ = stored(ctx, j, carillon.PutOptions{})
			puts[i].Warnings = []string{"w"}
		}
		return puts, nil
	}}, Options{})
	load := func(batches ...[]string) (*pb.PutJobsResponse, error) {
		stream, err := c.PutJobs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, batch := range batches {
			m := &pb.PutJobsRequest{}
			for _, name := range batch {
				m.Jobs = append(m.Jobs, &pb.Job{Name: name})
			}
			_ = stream.Send(m) // its error comes with the answer
		}
		return stream.CloseAndRecv()
	}
	reply, err := load([]string{"a", "b"}, nil, []string{"c"})
	if err != nil || reply.GetStored() != 3 || reply.GetCreated() != 3 || reply.GetChanged() != 3 ||
		reply.GetWarnings()[2] != "c: w" {
		t.Errorf("reply %v, %v", reply, err)
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("stored %v", names)
	}
	_, err = load([]string{"d"}, []string{"bad"})
	if e := problemOf(t, err); e.Field != "jobs[0].name" ||
		!strings.Contains(e.Message, "the 1 jobs sent in earlier messages are stored") {
		t.Errorf("got %v", e)
	}
}
