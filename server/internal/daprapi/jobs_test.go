package daprapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
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

func constant(interval *durationpb.Duration, retries *uint32) *common.JobFailurePolicy {
	return &common.JobFailurePolicy{Policy: &common.JobFailurePolicy_Constant{
		Constant: &common.JobFailurePolicyConstant{Interval: interval, MaxRetries: retries}}}
}

var byDefault = constant(durationpb.New(time.Second), new(uint32(3)))

// TestJobsComeBackAsTheyWere: whatever Dapr takes is shown as it was written.
func TestJobsComeBackAsTheyWere(t *testing.T) {
	r := start(t, "memory:", Options{})
	texts := func(schedule, due, ttl string) *pb.Job {
		job := &pb.Job{}
		for _, f := range []struct {
			to   **string
			text string
		}{{&job.Schedule, schedule}, {&job.DueTime, due}, {&job.Ttl, ttl}} {
			if f.text != "" {
				*f.to = &f.text
			}
		}
		return job
	}
	policy := func(p *common.JobFailurePolicy) *pb.Job {
		job := far()
		job.FailurePolicy = p
		return job
	}
	jobs := []*pb.Job{
		texts("0 0 0 1 1 *", "", ""), texts("1,,2 * * * * *", "", ""), texts("? ? ? ? ? ?", "",
			""), texts("*/61 * * * * *", "", ""),
		texts("  0 0 0 1 1 *  ", "", ""), texts("0\t0\t0\t1\t1\t*", "", ""), texts("0 0 0 */1 * MON", "", ""),
		texts("TZ= 0 0 0 1 1 *", "", ""), texts("CRON_TZ=Europe/Berlin 0 0 0 1 1 *", "",
			""), texts("TZ=Europe/Berlin @daily", "", ""),
		texts("@every 1h30m", "", ""), texts("@every 1.5s", "1h", "PT2H"), texts("@every 0", "1h", ""),
		texts("@every -1h", "2h", ""), texts("@every 1us", "1h", ""), texts("@daily", "",
			"48h"), texts("@daily", "2099-01-31T00:00:00Z", "P1M"),
		texts("", "1h", ""), texts("", "P1Y2M3DT4H5M6S", ""), texts("", "9999-12-31T23:59:59Z", ""),
		texts("", "2540400h", ""), texts("", "2099-01-01T00:00:00.123456789+02:00", ""),
		{DueTime: new("1h"), Repeats: new(uint32(1))},
		{Schedule: new("@daily"), Repeats: new(uint32(math.MaxUint32))},
		{DueTime: new("1h"), Data: &anypb.Any{TypeUrl: "bogus/none", Value: []byte{0, 255}}},
		{DueTime: new("1h"), Data: &anypb.Any{}},
		policy(&common.JobFailurePolicy{Policy: &common.JobFailurePolicy_Drop{Drop: &common.JobFailurePolicyDrop{}}}),
		policy(constant(nil, nil)), policy(constant(nil, new(uint32(3)))),
		policy(constant(durationpb.New(0), new(uint32(0)))),
		policy(constant(durationpb.New(-time.Second), new(uint32(3)))),
		policy(constant(durationpb.New(time.Minute), nil)),
		policy(constant(&durationpb.Duration{Seconds: 1 << 60}, new(uint32(math.MaxUint32)))),
	}
	for i, job := range jobs {
		name := strconv.Itoa(i)
		r.put(name, appOf("app"), job)
		want := proto.CloneOf(job)
		if want.FailurePolicy == nil {
			want.FailurePolicy = byDefault
		}
		if got := r.get(name, appOf("app")); !proto.Equal(got, want) {
			t.Errorf("put %v, got %v", want, got)
		}
	}
	all, err := r.client.ListJobs(t.Context(), &pb.ListJobsRequest{Metadata: appOf("app")})
	if err != nil || len(all.GetJobs()) != len(jobs) {
		t.Fatalf("%d jobs, %v", len(all.GetJobs()), err)
	}
	for _, j := range all.GetJobs() {
		if !proto.Equal(j.GetMetadata(), appOf("app")) ||
			!proto.Equal(j.GetJob(), r.get(j.GetName(), appOf("app"))) {
			t.Errorf("listed %v", j)
		}
	}
}

func TestEmptyPolicyIsTheDefault(t *testing.T) {
	r := start(t, "memory:", Options{})
	job := far()
	job.FailurePolicy = &common.JobFailurePolicy{}
	r.put("n", appOf("app"), job)
	if got := r.get("n", appOf("app")).GetFailurePolicy(); !proto.Equal(got, byDefault) {
		t.Errorf("got %v", got)
	}
}

// TestNames: every name that Dapr takes is one here, and only of its own target.
func TestNames(t *testing.T) {
	r := start(t, "memory:", Options{})
	names := []string{"", ".", "..", "-a", "a||b", "||", "a|b", "a b", "UPPER", "upper", "a:b", "a%3Ab",
		"a%b", "%00", "ä", "日本", "a@b*c", "a\"'<>&=+;,b", "\u200b"}
	targets := []*pb.JobMetadata{appOf("app"), appOf("App: 1"), actorOf("Type||of", "i d"),
		actorOf("Type", "of||i d"), actorOf("T\u00a0", "👩\u200d💻"), appOf("a\u200d")}
	for _, m := range targets {
		for _, name := range names {
			r.put(name, m, far())
		}
	}
	for _, m := range targets {
		got := r.list(m)
		slices.Sort(got)
		want := slices.Sorted(slices.Values(names))
		if !slices.Equal(got, want) {
			t.Errorf("of %v: %q, want %q", m, got, want)
		}
		for _, name := range names {
			_, err := r.client.ScheduleJob(t.Context(), &pb.ScheduleJobRequest{Name: name, Metadata: m, Job: far()})
			if status.Code(err) != codes.AlreadyExists {
				t.Errorf("%q once more: %v", name, err)
			}
			if _, err := r.client.DeleteJob(t.Context(), &pb.DeleteJobRequest{Name: name, Metadata: m}); err != nil {
				t.Error(err)
			}
			if r.get(name, m) != nil {
				t.Errorf("%q is still there", name)
			}
		}
	}
}

// TestNamespacesOfBothCases: a namespace with capitals is one, and another than that without.
func TestNamespacesOfBothCases(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		upper, lower := appOf("app"), appOf("app")
		upper.Namespace, lower.Namespace = "Team-A", "team-a"
		of := func(m *pb.JobMetadata) *sidecarOf {
			return r.watch(&pb.WatchJobsRequestInitial{AppId: m.GetAppId(), Namespace: m.GetNamespace()})
		}
		above, below := of(upper), of(lower)
		r.put("n", upper, &pb.Job{DueTime: new("1s")})
		if r.get("n", lower) != nil {
			t.Error("the job is in the other namespace as well")
		}
		run := above.next()
		if !proto.Equal(run.GetMetadata(), upper) {
			t.Errorf("the run is of %v", run.GetMetadata())
		}
		above.succeed(run.GetId())
		r.put("n", lower, &pb.Job{DueTime: new("1s")})
		if run = below.next(); !proto.Equal(run.GetMetadata(), lower) {
			t.Errorf("the run is of %v", run.GetMetadata())
		}
		below.succeed(run.GetId())

		r.put("stays", upper, far())
		r.put("goes", lower, far())
		if _, err := r.client.DeleteByMetadata(t.Context(),
			&pb.DeleteByMetadataRequest{Metadata: lower}); err != nil {
			t.Error(err)
		}
		if got := append(r.list(upper), r.list(lower)...); !slices.Equal(got, []string{"stays"}) {
			t.Errorf("what is left: %q", got)
		}
	})
}

func TestExistingJobs(t *testing.T) {
	r := start(t, "memory:", Options{})
	r.put("n", actorOf("t", "i"), far())
	again := &pb.ScheduleJobRequest{Name: "n", Metadata: actorOf("t", "i"),
		Job: &pb.Job{Schedule: new("@daily")}}
	again.Metadata.AppId = "other"
	_, err := r.client.ScheduleJob(t.Context(), again)
	if st := status.Convert(err); st.Code() != codes.AlreadyExists ||
		st.Message() != "job already exists: 'actorreminder||default||t||i||n'" {
		t.Errorf("put again: %v", err)
	}
	again.Overwrite = true
	if _, err := r.client.ScheduleJob(t.Context(), again); err != nil {
		t.Errorf("overwrite: %v", err)
	}
	all, err := r.client.ListJobs(t.Context(), &pb.ListJobsRequest{Metadata: actorOf("t", "i")})
	if err != nil || len(all.GetJobs()) != 1 || all.GetJobs()[0].GetMetadata().GetAppId() != "other" ||
		all.GetJobs()[0].GetJob().GetSchedule() != "@daily" {
		t.Errorf("there is %v, %v", all, err)
	}
	again.Job.Schedule = new("garbage")
	if _, err := r.client.ScheduleJob(t.Context(), again); status.Code(err) != codes.Unknown {
		t.Errorf("overwrite with nonsense: %v", err)
	}
	if r.get("n", actorOf("t", "i")).GetSchedule() != "@daily" {
		t.Error("nonsense has changed the job")
	}
}

// TestLifeThatEndsAtOnce: such a job is taken, and there is none.
func TestLifeThatEndsAtOnce(t *testing.T) {
	r := start(t, "memory:", Options{})
	for _, ttl := range []string{"0s", "-1h", "1ms", "2020-01-01T00:00:00Z"} {
		job := &pb.Job{Schedule: new("0 0 0 1 1 *"), Ttl: &ttl}
		r.put("n", appOf("app"), job)
		if got := r.get("n", appOf("app")); got != nil {
			t.Errorf("ttl %s: there is %v", ttl, got)
		}
		r.put("there", appOf("app"), far())
		req := &pb.ScheduleJobRequest{Name: "there", Metadata: appOf("app"), Job: job}
		if _, err := r.client.ScheduleJob(t.Context(), req); status.Code(err) != codes.AlreadyExists {
			t.Errorf("ttl %s over a job: %v", ttl, err)
		}
		req.Overwrite = true
		if _, err := r.client.ScheduleJob(t.Context(), req); err != nil || r.get("there", appOf("app")) != nil {
			t.Errorf("ttl %s instead of a job: %v", ttl, err)
		}
	}
}

func TestLists(t *testing.T) {
	r := start(t, "memory:", Options{ListBytes: 100_000})
	for i := range carillon.MaxBatch + 10 {
		r.put(fmt.Sprint("n", i), appOf("many"), &pb.Job{DueTime: new("1h")})
	}
	if n := len(r.list(appOf("many"))); n != carillon.MaxBatch+10 {
		t.Errorf("%d jobs", n)
	}
	if n := len(r.list(appOf("man"))); n != 0 {
		t.Errorf("%d jobs of another app", n)
	}
	r.put("large", appOf("many"), &pb.Job{DueTime: new("1h"), Data: &anypb.Any{Value: make([]byte, 100_000)}})
	_, err := r.client.ListJobs(t.Context(), &pb.ListJobsRequest{Metadata: appOf("many")})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a list that is too large: %v", err)
	}
}

// TestDeletes holds what is left against Dapr's scheduler 1.18.3.
func TestDeletes(t *testing.T) {
	r := start(t, "memory:", Options{})
	byMetadata := func(m *pb.JobMetadata, alike *bool) func() error {
		return func() error {
			_, err := r.client.DeleteByMetadata(t.Context(),
				&pb.DeleteByMetadataRequest{Metadata: m, IdPrefixMatch: alike})
			return err
		}
	}
	byPrefix := func(m *pb.JobMetadata, prefix string) func() error {
		return func() error {
			_, err := r.client.DeleteByNamePrefix(t.Context(),
				&pb.DeleteByNamePrefixRequest{Metadata: m, NamePrefix: prefix})
			return err
		}
	}
	yes, no := new(true), new(false)
	for i, c := range []struct {
		delete func() error
		left   [4]int // lapp, lapp2, lt, lt2
	}{
		{byMetadata(appOf("nobody"), nil), [4]int{2, 1, 3, 1}},
		{byMetadata(appOf("lapp"), nil), [4]int{0, 1, 3, 1}},
		{byMetadata(appOf("lapp"), no), [4]int{0, 1, 3, 1}},
		{byMetadata(appOf("lapp"), yes), [4]int{0, 0, 3, 1}},
		{byMetadata(actorOf("lt", "i1"), nil), [4]int{2, 1, 1, 1}},
		{byMetadata(actorOf("lt", "i1"), yes), [4]int{2, 1, 0, 1}},
		{byMetadata(actorOf("lt", ""), nil), [4]int{2, 1, 0, 1}},
		{byMetadata(actorOf("lt", ""), yes), [4]int{2, 1, 0, 0}},
		{byMetadata(actorOf("", ""), nil), [4]int{2, 1, 3, 1}},
		{byMetadata(actorOf("", ""), yes), [4]int{2, 1, 0, 0}},
		{byPrefix(appOf("lapp"), "l1"), [4]int{1, 1, 3, 1}},
		{byPrefix(appOf("lapp"), "l"), [4]int{0, 1, 3, 1}},
		{byPrefix(appOf("lapp"), ""), [4]int{0, 1, 3, 1}},
		{byPrefix(appOf("lapp"), "zzz"), [4]int{2, 1, 3, 1}},
		{byPrefix(actorOf("lt", "i1"), "r"), [4]int{2, 1, 1, 1}},
		{byPrefix(actorOf("lt", "i1"), ""), [4]int{2, 1, 1, 1}},
		{byPrefix(actorOf("lt", ""), "r"), [4]int{2, 1, 3, 1}},
		{byPrefix(actorOf("lt", ""), "i"), [4]int{2, 1, 0, 1}},
		{byPrefix(actorOf("lt", ""), ""), [4]int{2, 1, 0, 1}},
		{byPrefix(actorOf("", ""), ""), [4]int{2, 1, 3, 1}},
	} {
		r.put("l1", appOf("lapp"), far())
		r.put("l2", appOf("lapp"), far())
		r.put("l1", appOf("lapp2"), far())
		r.put("r1", actorOf("lt", "i1"), far())
		r.put("r2", actorOf("lt", "i1"), far())
		r.put("r3", actorOf("lt", "i12"), far())
		r.put("r1", actorOf("lt2", "i1"), far())
		if err := c.delete(); err != nil {
			t.Errorf("case %d: %v", i, err)
		}
		left := [4]int{len(r.list(appOf("lapp"))), len(r.list(appOf("lapp2"))),
			len(r.list(actorOf("lt", ""))), len(r.list(actorOf("lt2", "")))}
		if left != c.left {
			t.Errorf("case %d: left %v, want %v", i, left, c.left)
		}
		if _, err := r.jobs.DeleteJobs(t.Context(), "default", carillon.DaprPrefix); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPatchedJobs: what was done through Carillon's own API is shown as far as Dapr's words go.
func TestPatchedJobs(t *testing.T) {
	r := start(t, "memory:", Options{})
	r.put("n", appOf("app"), &pb.Job{Schedule: new("1,,2 0 0 * * *"), DueTime: new("9999-01-01T00:00:00Z"),
		FailurePolicy: constant(nil, nil), Data: &anypb.Any{TypeUrl: "t", Value: []byte("v")}})
	key := carillon.Key{Namespace: "default", Name: "dapr/app/app/n"}
	if _, err := r.jobs.SetPaused(t.Context(), key, carillon.PauseOptions{Paused: true}); err != nil {
		t.Fatal(err)
	}
	patch := carillon.Patch{Fields: []string{"schedule", "failure_policy", "data"}, Job: carillon.Job{
		Schedule: "0 12 * * MON-FRI", FailurePolicy: carillon.Exponential(time.Second), Data: carillon.JSON("x")}}
	if _, err := r.jobs.PatchJob(t.Context(), key, patch); err != nil {
		t.Fatal(err)
	}
	got := r.get("n", appOf("app"))
	if got.GetSchedule() != "0 12 * * MON-FRI" || got.GetDueTime() != "9999-01-01T00:00:00Z" ||
		got.FailurePolicy != nil {
		t.Errorf("got %v", got)
	}
	if got.GetData().GetTypeUrl() != "type.googleapis.com/google.protobuf.BytesValue" {
		t.Errorf("data %v", got.GetData())
	}
}

func TestAuthorize(t *testing.T) {
	refusal := status.Error(codes.PermissionDenied, "not you")
	r := start(t, "memory:", Options{Authorize: func(_ context.Context, namespace, appID string) error {
		if namespace == "default" && appID == "app" {
			return nil
		}
		return refusal
	}})
	r.put("n", appOf("app"), far())
	r.put("n", actorOf("t", "i"), far())
	ctx, c := t.Context(), r.client
	for _, m := range []*pb.JobMetadata{appOf("other"), appOf("ap"), appOf("appx"),
		strangers(actorOf("t", "i")), elsewhere(appOf("app"))} {
		var faults [6]error
		_, faults[0] = c.ScheduleJob(ctx, &pb.ScheduleJobRequest{Name: "n", Metadata: m, Job: far(),
			Overwrite: true})
		_, faults[1] = c.GetJob(ctx, &pb.GetJobRequest{Name: "n", Metadata: m})
		_, faults[2] = c.ListJobs(ctx, &pb.ListJobsRequest{Metadata: m})
		_, faults[3] = c.DeleteJob(ctx, &pb.DeleteJobRequest{Name: "n", Metadata: m})
		_, faults[4] = c.DeleteByMetadata(ctx, &pb.DeleteByMetadataRequest{Metadata: m, IdPrefixMatch: new(true)})
		_, faults[5] = c.DeleteByNamePrefix(ctx, &pb.DeleteByNamePrefixRequest{Metadata: m})
		for i, err := range faults {
			if !errors.Is(err, refusal) {
				t.Errorf("call %d for %v: %v", i, m, err)
			}
		}
	}
	if r.get("n", appOf("app")) == nil || r.get("n", actorOf("t", "i")) == nil {
		t.Error("a stranger has removed a job")
	}
	stream, err := r.client.WatchJobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// the error comes with Recv
	_ = stream.Send(&pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Initial{
		Initial: &pb.WatchJobsRequestInitial{Namespace: "default", AppId: "other"}}})
	if _, err := stream.Recv(); !errors.Is(err, refusal) {
		t.Errorf("watch: %v", err)
	}
}

// strangers is the metadata of another app, elsewhere of another namespace.
func strangers(m *pb.JobMetadata) *pb.JobMetadata { m.AppId = "other"; return m }
func elsewhere(m *pb.JobMetadata) *pb.JobMetadata { m.Namespace = "elsewhere"; return m }

// TestNamesThatCannotBe: a name that is too long when it is escaped is that of no job, so there is nothing to
// get or delete.
func TestNamesThatCannotBe(t *testing.T) {
	r := start(t, "memory:", Options{})
	r.put(":", appOf("app"), far())
	long, ctx := strings.Repeat(":", 400), t.Context()
	if r.get(long, appOf("app")) != nil {
		t.Error("there is such a job")
	}
	if _, err := r.client.DeleteJob(ctx, &pb.DeleteJobRequest{Name: long, Metadata: appOf("app")}); err != nil {
		t.Error(err)
	}
	if _, err := r.client.DeleteByNamePrefix(ctx,
		&pb.DeleteByNamePrefixRequest{NamePrefix: long, Metadata: appOf("app")}); err != nil {
		t.Error(err)
	}
	if r.get(":", appOf("app")) == nil {
		t.Error("another job is gone")
	}
}
