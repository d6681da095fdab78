package daprapi

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

// TestFaults holds codes against those of Dapr's scheduler 1.18.3 for the same input.
func TestFaults(t *testing.T) {
	anywhere := func(change func(m *pb.JobMetadata)) *pb.JobMetadata {
		m := appOf("app")
		change(m)
		return m
	}
	scheduled := func(text string) *pb.Job { return &pb.Job{Schedule: &text} }
	due := func(text string) *pb.Job { return &pb.Job{DueTime: &text} }
	ttl := func(job *pb.Job, text string) *pb.Job { job.Ttl = &text; return job }
	repeats := func(job *pb.Job, n uint32) *pb.Job { job.Repeats = &n; return job }
	r := start(t, "memory:", Options{})
	for _, c := range []struct {
		about    string
		name     string
		metadata *pb.JobMetadata
		job      *pb.Job
		code     codes.Code
		says     string // what the message has
	}{
		{"no metadata", "n", nil, far(), codes.InvalidArgument, "missing namespace or appID"},
		{"no namespace", "n", anywhere(func(m *pb.JobMetadata) { m.Namespace = "" }), far(),
			codes.InvalidArgument, "missing namespace or appID"},
		{"no app", "n", anywhere(func(m *pb.JobMetadata) { m.AppId = "" }), far(), codes.InvalidArgument,
			"missing namespace or appID"},
		{"no target", "n", anywhere(func(m *pb.JobMetadata) { m.Target = nil }), far(), codes.Unknown,
			"metadata.target"},
		{"empty target", "n", anywhere(func(m *pb.JobMetadata) { m.Target = &pb.JobTargetMetadata{} }), far(),
			codes.Unknown, "metadata.target"},
		{"slash in namespace", "n", anywhere(func(m *pb.JobMetadata) { m.Namespace = "a/b" }), far(),
			codes.Unknown, "metadata.namespace"},
		{"slash in app", "n", appOf("a/b"), far(), codes.Unknown, "metadata.app_id"},
		{"slash in type", "n", actorOf("a/b", "i"), far(), codes.Unknown, "metadata.target.actor.type"},
		{"slash in id", "n", actorOf("t", "a/b"), far(), codes.Unknown, "metadata.target.actor.id"},
		{"namespace of another form", "n", anywhere(func(m *pb.JobMetadata) { m.Namespace = "a.b" }), far(),
			codes.InvalidArgument, "metadata.namespace"},
		{"no actor type", "n", actorOf("", "i"), far(), codes.InvalidArgument, "metadata.target.actor"},
		{"no actor id", "n", actorOf("t", ""), far(), codes.InvalidArgument, "metadata.target.actor"},
		{"slash in name", "a/b", appOf("app"), far(), codes.Unknown, "name"},
		{"backslash in name", `a\b`, appOf("app"), far(), codes.Unknown, "name"},
		{"hash in name", "a#b", appOf("app"), far(), codes.Unknown, "name"},
		{"question mark in name", "a?b", appOf("app"), far(), codes.Unknown, "name"},
		{"control character in name", "a\nb", appOf("app"), far(), codes.Unknown, "name"},
		{"long name", strings.Repeat("n", 500), appOf("app"), far(), codes.Unknown, "name"},
		{"name that grows too long", strings.Repeat(":", 400), appOf("app"), far(), codes.InvalidArgument, "name"},
		{"no job", "n", appOf("app"), nil, codes.InvalidArgument, "job"},
		{"empty job", "n", appOf("app"), &pb.Job{}, codes.Unknown, "due_time"},
		{"ttl alone", "n", appOf("app"), ttl(&pb.Job{}, "1h"), codes.Unknown, "due_time"},
		{"empty schedule", "n", appOf("app"), scheduled(""), codes.Unknown, "job.schedule"},
		{"five fields", "n", appOf("app"), scheduled("0 0 1 1 *"), codes.Unknown, "6"},
		{"seven fields", "n", appOf("app"), scheduled("0 0 0 1 1 * 2099"), codes.Unknown, "6"},
		{"last day", "n", appOf("app"), scheduled("0 0 0 L * *"), codes.Unknown, "day of month"},
		{"weekday 7", "n", appOf("app"), scheduled("0 0 0 * * 7"), codes.Unknown, "day of week"},
		{"backward range", "n", appOf("app"), scheduled("0 0 0 * * FRI-MON"), codes.Unknown, "day of week"},
		{"step 0", "n", appOf("app"), scheduled("*/0 * * * * *"), codes.Unknown, "second"},
		{"another word", "n", appOf("app"), scheduled("@minutely"), codes.Unknown, "@minutely"},
		{"capitals", "n", appOf("app"), scheduled("@Daily"), codes.Unknown, "@Daily"},
		{"every of nothing", "n", appOf("app"), scheduled("@every "), codes.Unknown, "job.schedule"},
		{"zone of every", "n", appOf("app"), scheduled("TZ=Europe/Berlin @every 1h"),
			codes.Unknown, "job.schedule"},
		{"unknown zone", "n", appOf("app"), scheduled("TZ=Bogus/Zone 0 0 0 1 1 *"), codes.Unknown, "Bogus/Zone"},
		{"zone alone", "n", appOf("app"), scheduled("TZ=UTC"), codes.Unknown, "job.schedule"},
		{"zone and nothing", "n", appOf("app"), scheduled("TZ=UTC "), codes.Unknown, "job.schedule"},
		{"ISO repeat", "n", appOf("app"), scheduled("R3/PT1H"), codes.Unknown, "job.schedule"},
		{"never", "n", appOf("app"), scheduled("0 0 0 30 2 *"), codes.InvalidArgument, "schedule"},
		{"empty due time", "n", appOf("app"), due(""), codes.Unknown, "job.due_time"},
		{"due date", "n", appOf("app"), due("2099-01-01"), codes.Unknown, "job.due_time"},
		{"due in days", "n", appOf("app"), due("1d"), codes.Unknown, "job.due_time"},
		{"due number", "n", appOf("app"), due("3600"), codes.Unknown, "job.due_time"},
		{"due repeats", "n", appOf("app"), due("R3/PT1H"), codes.Unknown, "job.due_time"},
		{"due repeats without number", "n", appOf("app"), due("R/PT1H"), codes.Unknown, "job.due_time"},
		{"due in less than nothing", "n", appOf("app"), due("-PT1H"), codes.Unknown, "job.due_time"},
		{"no repeats", "n", appOf("app"), repeats(scheduled("@daily"), 0), codes.Unknown, "job.repeats"},
		{"no repeats of one", "n", appOf("app"), repeats(far(), 0), codes.Unknown, "job.repeats"},
		{"repeats of one", "n", appOf("app"), repeats(far(), 2), codes.Unknown, "job.repeats"},
		{"ttl of one", "n", appOf("app"), ttl(far(), "1h"), codes.Unknown, "job.ttl"},
		{"other ttl", "n", appOf("app"), ttl(scheduled("@daily"), "garbage"), codes.Unknown, "job.ttl"},
		{"ttl repeats", "n", appOf("app"), ttl(scheduled("@daily"), "R1/PT1H"), codes.Unknown, "job.ttl"},
		{"ttl before due time", "n", appOf("app"), ttl(&pb.Job{Schedule: new("@daily"),
			DueTime: new("2099-01-01T00:00:00Z")},
			"2098-01-01T00:00:00Z"), codes.Unknown, "job.ttl"},
		{"large data", "n", appOf("app"), &pb.Job{DueTime: new("1h"),
			Data: &anypb.Any{TypeUrl: "t", Value: make([]byte, 2<<20)}},
			codes.ResourceExhausted, "job.data"},
	} {
		_, err := r.client.ScheduleJob(t.Context(),
			&pb.ScheduleJobRequest{Name: c.name, Metadata: c.metadata, Job: c.job})
		if st := status.Convert(err); st.Code() != c.code || !strings.Contains(st.Message(), c.says) {
			t.Errorf("%s: %v, want %v with %q", c.about, err, c.code, c.says)
		}
	}
	if left := r.list(appOf("app")); len(left) > 0 {
		t.Errorf("there are %v", left)
	}
}

// TestAddressFaults: the other calls judge metadata and names alike.
func TestAddressFaults(t *testing.T) {
	r := start(t, "memory:", Options{})
	calls := map[string]func(name string, m *pb.JobMetadata) error{
		"GetJob": func(name string, m *pb.JobMetadata) error {
			_, err := r.client.GetJob(t.Context(), &pb.GetJobRequest{Name: name, Metadata: m})
			return err
		},
		"DeleteJob": func(name string, m *pb.JobMetadata) error {
			_, err := r.client.DeleteJob(t.Context(), &pb.DeleteJobRequest{Name: name, Metadata: m})
			return err
		},
		"ListJobs": func(_ string, m *pb.JobMetadata) error {
			_, err := r.client.ListJobs(t.Context(), &pb.ListJobsRequest{Metadata: m})
			return err
		},
		"DeleteByMetadata": func(_ string, m *pb.JobMetadata) error {
			_, err := r.client.DeleteByMetadata(t.Context(), &pb.DeleteByMetadataRequest{Metadata: m})
			return err
		},
		"DeleteByNamePrefix": func(name string, m *pb.JobMetadata) error {
			_, err := r.client.DeleteByNamePrefix(t.Context(),
				&pb.DeleteByNamePrefixRequest{NamePrefix: name, Metadata: m})
			return err
		},
	}
	for call, do := range calls {
		untargeted, elsewhere := appOf("app"), appOf("app")
		untargeted.Target, elsewhere.Namespace = nil, "a b"
		for _, c := range []struct {
			name     string
			metadata *pb.JobMetadata
			code     codes.Code
		}{
			{"n", nil, codes.InvalidArgument},
			{"n", &pb.JobMetadata{AppId: "app", Target: appOf("app").Target}, codes.InvalidArgument},
			{"n", appOf(""), codes.InvalidArgument},
			{"n", untargeted, codes.Unknown},
			{"n", elsewhere, codes.InvalidArgument},
			{"a/b", appOf("app"), codes.Unknown},
			{"", appOf("app"), codes.OK},
			{"n", actorOf("", ""), codes.OK},
			{"n", actorOf("t", ""), codes.OK},
		} {
			want := c.code
			switch {
			case call == "GetJob" && want == codes.OK:
				want = codes.NotFound
			case c.name == "a/b" && (call == "ListJobs" || call == "DeleteByMetadata"):
				want = codes.OK
			}
			if err := do(c.name, c.metadata); status.Code(err) != want {
				t.Errorf("%s of %q, %v: %v, want %v", call, c.name, c.metadata, err, want)
			}
		}
	}
}

// TestWatchFaults holds how a stream ends against Dapr's scheduler 1.18.3.
func TestWatchFaults(t *testing.T) {
	result := func(id uint64, how pb.WatchJobsRequestResultStatus) *pb.WatchJobsRequest {
		return &pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Result{Result: &pb.WatchJobsRequestResult{Id: id, Status: how}}}
	}
	initial := func(in *pb.WatchJobsRequestInitial) *pb.WatchJobsRequest {
		return &pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Initial{Initial: in}}
	}
	types := func(all ...pb.JobTargetType) *pb.WatchJobsRequest {
		return initial(&pb.WatchJobsRequestInitial{AppId: "app", Namespace: "default", AcceptJobTypes: all})
	}
	good := types()
	r := start(t, "memory:", Options{})
	for _, c := range []struct {
		about string
		say   []*pb.WatchJobsRequest
		code  codes.Code
		says  string
	}{
		{"nothing", nil, codes.Unknown, "initial"},
		{"result first", []*pb.WatchJobsRequest{result(1, 0)}, codes.Unknown, "initial"},
		{"empty first", []*pb.WatchJobsRequest{{}}, codes.Unknown, "initial"},
		{"no app", []*pb.WatchJobsRequest{initial(&pb.WatchJobsRequestInitial{Namespace: "default"})},
			codes.InvalidArgument, "missing namespace or appID"},
		{"no namespace", []*pb.WatchJobsRequest{initial(&pb.WatchJobsRequestInitial{AppId: "app"})},
			codes.InvalidArgument, "missing namespace or appID"},
		{"other namespace", []*pb.WatchJobsRequest{initial(&pb.WatchJobsRequestInitial{AppId: "app",
			Namespace: "a.b"})}, codes.InvalidArgument, "namespace"},
		{"type twice", []*pb.WatchJobsRequest{types(0, 0)}, codes.Unknown, "twice"},
		{"other type twice", []*pb.WatchJobsRequest{types(1, 0, 1)}, codes.Unknown, "twice"},
		{"unknown type", []*pb.WatchJobsRequest{types(7)}, codes.Unknown, "7"},
		{"half close", []*pb.WatchJobsRequest{good}, codes.Canceled, "closed its side"},
		{"initial twice", []*pb.WatchJobsRequest{good, good}, codes.Canceled, "result"},
		{"empty later", []*pb.WatchJobsRequest{good, {}}, codes.Canceled, "result"},
		{"unknown id", []*pb.WatchJobsRequest{good, result(999, 0)}, codes.Canceled, "999"},
		{"unknown status", []*pb.WatchJobsRequest{good, result(1, 9)}, codes.Canceled, "9"},
	} {
		stream, err := r.client.WatchJobs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range c.say {
			_ = stream.Send(m) // the error comes with Recv
		}
		_ = stream.CloseSend()
		_, err = stream.Recv()
		if st := status.Convert(err); st.Code() != c.code || !strings.Contains(st.Message(), c.says) {
			t.Errorf("%s: %v, want %v with %q", c.about, err, c.code, c.says)
		}
	}
}
