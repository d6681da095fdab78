package wire

import (
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// TestWrongResults: what an outcome needs is refused by name when it is missing or wrong, on both ways that
// results take.
func TestWrongResults(t *testing.T) {
	now := timestamppb.Now()
	for _, c := range []struct {
		field  string // "" = nothing is wrong
		result *pb.Result
	}{
		{"outcome", &pb.Result{Outcome: 5}},
		{"retry_after", &pb.Result{Outcome: pb.Outcome_OUTCOME_FAILURE, RetryAfter: "soon"}},
		{"progress", &pb.Result{Outcome: pb.Outcome_OUTCOME_PROGRESS}},
		{"progress.percent", &pb.Result{Outcome: pb.Outcome_OUTCOME_PROGRESS,
			Progress: &pb.Progress{Percent: math.NaN()}}},
		{"progress.percent", &pb.Result{Outcome: pb.Outcome_OUTCOME_PROGRESS,
			Progress: &pb.Progress{Percent: 101}}},
		{"progress.percent", &pb.Result{Outcome: pb.Outcome_OUTCOME_PROGRESS, Progress: &pb.Progress{Percent: -1}}},
		{"progress.message", &pb.Result{Outcome: pb.Outcome_OUTCOME_PROGRESS,
			Progress: &pb.Progress{Message: strings.Repeat("x", 1025)}}},
		{"at", &pb.Result{Outcome: pb.Outcome_OUTCOME_RESCHEDULE}},
		{"at", &pb.Result{Outcome: pb.Outcome_OUTCOME_RESCHEDULE, At: &timestamppb.Timestamp{Nanos: -1}}},
		{"at", &pb.Result{Outcome: pb.Outcome_OUTCOME_RESCHEDULE, At: &timestamppb.Timestamp{Seconds: -1 << 36}}},
		{"", &pb.Result{Outcome: pb.Outcome_OUTCOME_RESCHEDULE, At: now}},
		{"", &pb.Result{Outcome: pb.Outcome_OUTCOME_PROGRESS, Progress: &pb.Progress{}}},
		{"", &pb.Result{Outcome: pb.Outcome_OUTCOME_SUCCESS, At: now, Progress: &pb.Progress{Percent: 200}}},
	} {
		late := &pb.CompleteRunRequest{Outcome: c.result.GetOutcome(), RetryAfter: c.result.GetRetryAfter(),
			Progress: c.result.GetProgress(), At: c.result.GetAt()}
		_, err := CompletionFromProto(late)
		wantField(t, c.result, err, c.field)

		first := &pb.Result{Outcome: pb.Outcome_OUTCOME_SUCCESS}
		_, err = WorkRequestFromProto(&pb.WorkRequest{Results: []*pb.Result{first, c.result}})
		if c.field != "" {
			c.field = "results[1]." + c.field
		}
		wantField(t, c.result, err, c.field)
	}
}

func wantField(t *testing.T, what *pb.Result, err error, field string) {
	t.Helper()
	if e, ok := errors.AsType[*carillon.Error](err); ok != (field != "") || ok &&
		(e.Kind != carillon.InvalidArgument || e.Field != field) {
		t.Errorf("%v: %v; want the field %q", what, err, field)
	}
}

// TestProgressOfNothing: a progress that says nothing is there still, because its outcome needs it.
func TestProgressOfNothing(t *testing.T) {
	r := carillon.Result{Outcome: carillon.OutcomeProgress}
	back, err := CompletionFromProto(CompletionToProto("ns", &r))
	same(t, "progress", r, back, err)
}

// TestWrongTimesOfABackfill: what is no time is refused, and not taken for the default.
func TestWrongTimesOfABackfill(t *testing.T) {
	bad := &timestamppb.Timestamp{Nanos: -1}
	for field, m := range map[string]*pb.StartBackfillRequest{
		"from": {From: bad}, "to": {To: bad}, "overlap": {Overlap: 9},
	} {
		_, err := SpecFromProto(m)
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Field != field {
			t.Errorf("%v: %v", m, err)
		}
	}
}
