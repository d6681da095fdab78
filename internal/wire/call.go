package wire

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// PutToProto is the outcome of a put as a message.
func PutToProto(p *carillon.PutResult) *pb.PutJobResponse {
	b := &struct { // the answer to a put costs one allocation
		response pb.PutJobResponse
		job      jobBlock
		status   statusBlock
	}{}
	b.job.fill(&p.Job)
	if p.Job.Status != nil {
		b.job.job.Status = b.status.fill(p.Job.Status)
	}
	m := &b.response
	m.Job, m.Created, m.Changed, m.Warnings = &b.job.job, p.Created, p.Changed, p.Warnings
	return m
}

// PutFromProto is the message as the outcome of a put.
func PutFromProto(m *pb.PutJobResponse) (carillon.PutResult, error) {
	job, err := JobFromProto(m.GetJob())
	return carillon.PutResult{Job: job, Created: m.GetCreated(), Changed: m.GetChanged(),
		Warnings: m.GetWarnings()}, err
}

// JobsToProto is the jobs as messages.
func JobsToProto(jobs []carillon.Job) []*pb.Job {
	return toEach(jobs, JobToProto)
}

// JobsFromProto is the messages as jobs; an error names the job by its place, "jobs[3].due_time".
func JobsFromProto(ms []*pb.Job) ([]carillon.Job, error) {
	jobs := make([]carillon.Job, len(ms))
	for i, m := range ms {
		job, err := JobFromProto(m)
		if err != nil {
			return nil, Within(fmt.Sprintf("jobs[%d]", i), err)
		}
		jobs[i] = job
	}
	return jobs, nil
}

// PatchToProto is the patch as a request.
func PatchToProto(key carillon.Key, p *carillon.Patch) *pb.PatchJobRequest {
	return &pb.PatchJobRequest{Namespace: key.Namespace, Name: key.Name, Job: JobToProto(&p.Job),
		Fields: p.Fields, IfGeneration: p.IfGeneration}
}

// PatchFromProto is the request as a patch.
func PatchFromProto(m *pb.PatchJobRequest) (carillon.Patch, error) {
	job, err := JobFromProto(m.GetJob())
	return carillon.Patch{Fields: m.GetFields(), Job: job, IfGeneration: m.GetIfGeneration()}, err
}

// JobQueryToProto is the query as a request.
func JobQueryToProto(q *carillon.JobQuery) *pb.ListJobsRequest {
	return &pb.ListJobsRequest{Namespace: q.Namespace, Prefix: q.Prefix, Label: q.Label,
		Phase: optionalEnumTo[pb.Phase](q.Phase), PageSize: clampInt32(q.PageSize), PageToken: q.PageToken}
}

// JobQueryFromProto is the request as a query.
func JobQueryFromProto(m *pb.ListJobsRequest) (carillon.JobQuery, error) {
	var f first
	phase := optionalEnum[carillon.Phase](&f, m.GetPhase(), pb.Phase_name, "phase")
	return carillon.JobQuery{Namespace: m.GetNamespace(), Prefix: m.GetPrefix(),
		Label: m.GetLabel(), Phase: phase, PageSize: int(m.GetPageSize()), PageToken: m.GetPageToken()}, f.err
}

// NamespaceQueryToProto is the query as a request.
func NamespaceQueryToProto(q carillon.NamespaceQuery) *pb.ListNamespacesRequest {
	return &pb.ListNamespacesRequest{PageSize: clampInt32(q.PageSize), PageToken: q.PageToken}
}

// NamespaceQueryFromProto is the request as a query.
func NamespaceQueryFromProto(m *pb.ListNamespacesRequest) carillon.NamespaceQuery {
	return carillon.NamespaceQuery{PageSize: int(m.GetPageSize()), PageToken: m.GetPageToken()}
}

// SkipToProto is the outcome of a skip as a message.
func SkipToProto(s *carillon.SkipResult) *pb.SkipRunResponse {
	return &pb.SkipRunResponse{Time: timestamp(s.Time), Job: JobToProto(&s.Job)}
}

// SkipFromProto is the message as the outcome of a skip.
func SkipFromProto(m *pb.SkipRunResponse) (carillon.SkipResult, error) {
	job, err := JobFromProto(m.GetJob())
	return carillon.SkipResult{Time: instant(m.GetTime()), Job: job}, err
}

// CompletionToProto is a late result as a request.
func CompletionToProto(namespace string, r *carillon.Result) *pb.CompleteRunRequest {
	return &pb.CompleteRunRequest{Namespace: namespace, Id: r.RunID, Token: r.Token,
		Outcome: enumTo[pb.Outcome](r.Outcome), Message: text(r.Message), Permanent: r.Permanent,
		RetryAfter: durationText(r.RetryAfter), Response: r.Response, Progress: progressToProto(r),
		At: timestamp(r.At)}
}

// CompletionFromProto is the request as a late result. The outcome must be given: nobody knows what silence
// means.
func CompletionFromProto(m *pb.CompleteRunRequest) (carillon.Result, error) {
	if m.GetOutcome() == pb.Outcome_OUTCOME_UNSPECIFIED {
		return carillon.Result{}, invalid("outcome",
			`say how the attempt ended: "success", "failure" or "reschedule"; or "progress"`)
	}
	return resultFromProto(m, m.GetId())
}

// PreviewToProto is the query as a request.
func PreviewToProto(q *carillon.PreviewQuery) *pb.PreviewScheduleRequest {
	return &pb.PreviewScheduleRequest{Schedule: q.Schedule, TimeZone: q.TimeZone,
		Dst: enumTo[pb.DaylightSaving](q.DST), From: timestamp(q.From), DueTime: q.Due.String(),
		Count: clampInt32(q.Count), Namespace: q.Namespace, Except: q.Except, Only: q.Only}
}

// PreviewFromProto is the request as a query.
func PreviewFromProto(m *pb.PreviewScheduleRequest) (carillon.PreviewQuery, error) {
	var f first
	// zero would read as "not given"
	if from := m.GetFrom(); from != nil && (!from.IsValid() || instant(from).IsZero()) {
		f.keep(invalid("from", "not a time between %s and %s",
			carillon.EarliestTime.Format(time.RFC3339), carillon.LatestTime.Format(time.RFC3339)))
	}
	q := carillon.PreviewQuery{Schedule: m.GetSchedule(), TimeZone: m.GetTimeZone(), DST: f.dst(m.GetDst()),
		From: instant(m.GetFrom()), Due: carillon.WhenText(m.GetDueTime()), Count: int(m.GetCount()),
		Namespace: m.GetNamespace(), Except: m.GetExcept(), Only: m.GetOnly()}
	return q, f.err
}

// TimesToProto is the answer to a preview as a message, with hints about the schedule.
func TimesToProto(times []time.Time, hints []string) *pb.PreviewScheduleResponse {
	return &pb.PreviewScheduleResponse{Hints: hints, Times: toEach(times,
		func(t *time.Time) *timestamppb.Timestamp { return timestamppb.New(*t) })}
}

// TimesFromProto is the message as the answer to a preview.
func TimesFromProto(m *pb.PreviewScheduleResponse) []time.Time {
	return fromEach(m.GetTimes(), instant)
}

// TriggerToProto is the trigger of a job as a request.
func TriggerToProto(key carillon.Key, o *carillon.TriggerOptions) *pb.TriggerJobRequest {
	m := &pb.TriggerJobRequest{Namespace: key.Namespace, Name: key.Name, Metadata: o.Metadata,
		Overlap: optionalEnumTo[pb.Overlap](o.Overlap)}
	if o.Data != nil {
		m.Data, m.ContentType = o.Data.Bytes, o.Data.ContentType
		if m.Payload = payloadText(o.Data.Ref); m.Data == nil && m.Payload == "" {
			m.Data = []byte{} // it is given, and empty
		}
	}
	return m
}

// TriggerFromProto is the request as what the run is to be.
func TriggerFromProto(m *pb.TriggerJobRequest) (carillon.TriggerOptions, error) {
	var f first
	o := carillon.TriggerOptions{Metadata: m.GetMetadata(),
		Overlap: optionalEnum[carillon.Overlap](&f, m.GetOverlap(), pb.Overlap_name, "overlap")}
	if m.Data != nil || m.GetPayload() != "" {
		o.Data = new(f.data(m))
	} else if m.GetContentType() != "" {
		f.keep(invalid("content_type", "it is about data or payload, of which neither is given"))
	}
	return o, f.err
}
