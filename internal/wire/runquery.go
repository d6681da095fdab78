package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

func (f *first) runQuery(m *pb.ListRunsRequest) carillon.RunQuery {
	q := carillon.RunQuery{Namespace: m.GetNamespace(), Job: m.GetJob(), Prefix: m.GetPrefix(),
		Queue: m.GetQueue(), Kind: m.GetKind(), Label: m.GetLabel(), Error: m.GetError(),
		From: f.bound(m.GetFrom(), "from"), Until: f.bound(m.GetUntil(), "until"),
		PageSize: int(m.GetPageSize()), PageToken: m.GetPageToken()}
	for _, s := range m.GetStatus() {
		if s == pb.RunStatus_RUN_STATUS_UNSPECIFIED {
			f.keep(invalid("status", "one is unspecified; leave it out"))
			continue
		}
		q.Statuses = append(q.Statuses, enumFrom[carillon.RunStatus](f, s, pb.RunStatus_name, "status"))
	}
	return q
}

// bound is a bound in time; absent is none. The zero time would read as none, too.
func (f *first) bound(ts *timestamppb.Timestamp, field string) time.Time {
	t := f.time(ts, field)
	if ts != nil && t.IsZero() {
		f.keep(invalid(field, "not a time between %s and %s",
			carillon.EarliestTime.Format(time.RFC3339), carillon.LatestTime.Format(time.RFC3339)))
	}
	return t
}

// RunQueryToProto is the query as a request.
func RunQueryToProto(q *carillon.RunQuery) *pb.ListRunsRequest {
	return &pb.ListRunsRequest{Namespace: q.Namespace, Job: q.Job, Status: statusesToProto(q.Statuses),
		Prefix: q.Prefix, Queue: q.Queue, Kind: q.Kind, Label: q.Label, Error: q.Error, From: timestamp(q.From),
		Until: timestamp(q.Until), PageSize: clampInt32(q.PageSize), PageToken: q.PageToken}
}

// RunQueryFromProto is the request as a query.
func RunQueryFromProto(m *pb.ListRunsRequest) (carillon.RunQuery, error) {
	var f first
	q := f.runQuery(m)
	return q, f.err
}

func statusesToProto(statuses []carillon.RunStatus) []pb.RunStatus {
	return toEach(statuses, func(s *carillon.RunStatus) pb.RunStatus { return enumTo[pb.RunStatus](*s) })
}

// BulkRunsToProto is what to do to runs as a request.
func BulkRunsToProto(b *carillon.BulkRuns) *pb.BulkRunsRequest {
	m := RunQueryToProto(&b.Query)
	return &pb.BulkRunsRequest{Namespace: m.GetNamespace(), Job: m.GetJob(), Status: m.GetStatus(),
		Prefix: m.GetPrefix(), Queue: m.GetQueue(), Kind: m.GetKind(), Label: m.GetLabel(), Error: m.GetError(),
		From: m.GetFrom(), Until: m.GetUntil(), PageSize: m.GetPageSize(), PageToken: m.GetPageToken(),
		Action: pb.RunAction(b.Action), All: b.All, DryRun: b.DryRun}
}

// BulkRunsFromProto is the request as what to do to runs.
func BulkRunsFromProto(m *pb.BulkRunsRequest) (carillon.BulkRuns, error) {
	var f first
	query := f.runQuery(&pb.ListRunsRequest{Namespace: m.GetNamespace(), Job: m.GetJob(), Status: m.GetStatus(),
		Prefix: m.GetPrefix(), Queue: m.GetQueue(), Kind: m.GetKind(), Label: m.GetLabel(), Error: m.GetError(),
		From: m.GetFrom(), Until: m.GetUntil(), PageSize: m.GetPageSize(), PageToken: m.GetPageToken()})
	b := carillon.BulkRuns{Query: query, All: m.GetAll(), DryRun: m.GetDryRun(),
		Action: action[carillon.RunAction](&f, m.GetAction(), pb.RunAction_name)}
	return b, f.err
}

// BulkJobsToProto is what to do to jobs as a request.
func BulkJobsToProto(b *carillon.BulkJobs) *pb.BulkJobsRequest {
	q := &b.Query
	return &pb.BulkJobsRequest{Namespace: q.Namespace, Prefix: q.Prefix, Label: q.Label,
		Phase: optionalEnumTo[pb.Phase](q.Phase), PageSize: clampInt32(q.PageSize), PageToken: q.PageToken,
		Action: pb.JobAction(b.Action), All: b.All, DryRun: b.DryRun, Note: b.Note, CatchUp: b.CatchUp}
}

// BulkJobsFromProto is the request as what to do to jobs.
func BulkJobsFromProto(m *pb.BulkJobsRequest) (carillon.BulkJobs, error) {
	var f first
	b := carillon.BulkJobs{
		Query: carillon.JobQuery{Namespace: m.GetNamespace(), Prefix: m.GetPrefix(), Label: m.GetLabel(),
			Phase:    optionalEnum[carillon.Phase](&f, m.GetPhase(), pb.Phase_name, "phase"),
			PageSize: int(m.GetPageSize()), PageToken: m.GetPageToken()},
		Action: action[carillon.JobAction](&f, m.GetAction(), pb.JobAction_name),
		All:    m.GetAll(), DryRun: m.GetDryRun(), Note: m.GetNote(), CatchUp: m.GetCatchUp()}
	return b, f.err
}

// action is an action, whose numbers are the same in both forms: 0 is none.
func action[W ~uint8, P ~int32](f *first, p P, names map[int32]string) W {
	if _, ok := names[int32(p)]; !ok {
		f.keep(invalid("action", "%d is unknown", p))
		return 0
	}
	return W(p)
}

// BulkResultToProto is what a bulk action has done as a message.
func BulkResultToProto(r *carillon.BulkResult) *pb.BulkResponse {
	return &pb.BulkResponse{Matched: uint32(r.Matched), Changed: uint32(r.Changed), Failed: uint32(r.Failed),
		Names: r.Names, NextPageToken: r.NextPageToken,
		Failures: toEach(r.Failures, func(b *carillon.BulkFailure) *pb.BulkFailure {
			return &pb.BulkFailure{Name: b.Name, Reason: text(b.Reason)}
		})}
}

// BulkResultFromProto is the message as what a bulk action has done.
func BulkResultFromProto(m *pb.BulkResponse) carillon.BulkResult {
	return carillon.BulkResult{Matched: int(m.GetMatched()), Changed: int(m.GetChanged()),
		Failed: int(m.GetFailed()), Names: m.GetNames(), NextPageToken: m.GetNextPageToken(),
		Failures: fromEach(m.GetFailures(), func(b *pb.BulkFailure) carillon.BulkFailure {
			return carillon.BulkFailure{Name: b.GetName(), Reason: b.GetReason()}
		})}
}
