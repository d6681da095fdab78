package wire

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// TestErrorsCrossWhole: what the server returned is what the client meets.
func TestErrorsCrossWhole(t *testing.T) {
	for k := carillon.Internal; k <= carillon.Canceled; k++ {
		for _, unknown := range []bool{false, true} {
			sent := &carillon.Error{Kind: k, Field: "target.http.url", Message: "is wrong", Unknown: unknown, Err: errors.New("secret")}
			got := ErrorFromStatus(ErrorToStatus(fmt.Errorf("put: %w", sent)))
			e, ok := errors.AsType[*carillon.Error](got)
			if !ok {
				t.Fatalf("%v: got %T", k, got)
			}
			if e.Kind != k || e.Field != sent.Field || e.Message != sent.Message || e.Unknown != unknown {
				t.Errorf("sent %+v, got %+v", sent, e)
			}
			if !errors.Is(got, k) {
				t.Errorf("errors.Is(err, %v) is false", k)
			}
		}
	}
}

func TestCodesAreDistinct(t *testing.T) {
	seen := map[codes.Code]carillon.Kind{}
	for k := carillon.Internal; k <= carillon.Canceled; k++ {
		if other, twice := seen[GRPCCode(k)]; twice {
			t.Errorf("%v and %v have the same code", k, other)
		}
		seen[GRPCCode(k)] = k
		if HTTPStatus(k) < 400 {
			t.Errorf("%v has HTTP status %d", k, HTTPStatus(k))
		}
	}
	if GRPCCode(200) != codes.Internal || HTTPStatus(200) != 500 {
		t.Error("an unknown kind must be internal")
	}
}

// TestCausesStayInside: an error that nobody classed says nothing about its cause.
func TestCausesStayInside(t *testing.T) {
	st, _ := status.FromError(ErrorToStatus(errors.New("open /var/lib/secret: no such file")))
	if st.Code() != codes.Internal || st.Message() != "internal error; the server's log has the cause" {
		t.Errorf("got %v", st)
	}
}

func TestErrorsWithoutProblem(t *testing.T) {
	for _, c := range []struct {
		err     error
		kind    carillon.Kind
		unknown bool
	}{
		{status.Error(codes.Unavailable, "connection lost"), carillon.Unavailable, true},
		{status.Error(codes.DeadlineExceeded, ""), carillon.DeadlineExceeded, true},
		{status.Error(codes.Canceled, ""), carillon.Canceled, true},
		{status.Error(codes.ResourceExhausted, "message too large"), carillon.ResourceExhausted, false},
		{status.Error(codes.Unimplemented, "unknown method"), carillon.InvalidArgument, false},
		{status.Error(codes.Unauthenticated, ""), carillon.Unauthenticated, false},
		{context.DeadlineExceeded, carillon.DeadlineExceeded, true},
		{context.Canceled, carillon.Canceled, true},
	} {
		e, ok := errors.AsType[*carillon.Error](ErrorFromStatus(c.err))
		if !ok || e.Kind != c.kind || e.Unknown != c.unknown {
			t.Errorf("%v became %+v", c.err, e)
		}
	}
	if ErrorFromStatus(nil) != nil || ErrorToStatus(nil) != nil {
		t.Error("no error must stay none")
	}
}

// TestWrongValuesNameTheirField: every field that the conversion itself can refuse.
func TestWrongValuesNameTheirField(t *testing.T) {
	const bad = "soon"
	policy := func(p *pb.FailurePolicy) *pb.Job { return &pb.Job{FailurePolicy: p} }
	exponential := func(e *pb.ExponentialPolicy) *pb.Job {
		return policy(&pb.FailurePolicy{Kind: &pb.FailurePolicy_Exponential{Exponential: e}})
	}
	for field, m := range map[string]*pb.Job{
		"spread":                             {Spread: bad},
		"timeout":                            {Timeout: bad},
		"lease":                              {Lease: bad},
		"catch_up_window":                    {CatchUpWindow: bad},
		"history.keep":                       {History: &pb.History{Keep: bad}},
		"dst":                                {Dst: 99},
		"overlap":                            {Overlap: 99},
		"misfire":                            {Misfire: 99},
		"class":                              {Class: 99},
		"failure_policy.on_exhausted":        policy(&pb.FailurePolicy{OnExhausted: 99}),
		"failure_policy.constant.interval":   policy(&pb.FailurePolicy{Kind: &pb.FailurePolicy_Constant{Constant: &pb.ConstantPolicy{Interval: bad}}}),
		"failure_policy.exponential.initial": exponential(&pb.ExponentialPolicy{Initial: bad}),
		"failure_policy.exponential.max":     exponential(&pb.ExponentialPolicy{Max: bad}),
		"failure_policy.exponential.jitter":  exponential(&pb.ExponentialPolicy{Jitter: bad}),
	} {
		_, err := JobFromProto(m)
		e, ok := errors.AsType[*carillon.Error](err)
		if !ok || e.Kind != carillon.InvalidArgument || e.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
	_, err := JobsFromProto([]*pb.Job{{}, {Lease: bad}})
	if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Field != "jobs[1].lease" {
		t.Errorf("in a batch: got %v", err)
	}
}

// TestPreviewFromNoTime: a time that Go takes for "none", or that is none, is refused rather than read as now.
func TestPreviewFromNoTime(t *testing.T) {
	for _, from := range []*timestamppb.Timestamp{timestamppb.New(time.Time{}), {Seconds: 1 << 60}, {Nanos: -1}} {
		_, err := PreviewFromProto(&pb.PreviewScheduleRequest{Schedule: "@daily", From: from})
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument || e.Field != "from" {
			t.Errorf("%v: got %v", from, err)
		}
	}
	if _, err := PreviewFromProto(&pb.PreviewScheduleRequest{Schedule: "@daily"}); err != nil {
		t.Errorf("without a time: %v", err)
	}
}

func TestNilMessages(t *testing.T) {
	if _, err := JobFromProto(nil); err != nil {
		t.Error(err)
	}
	if _, err := RunFromProto(nil); err != nil {
		t.Error(err)
	}
	if _, err := CompletionFromProto(nil); carillon.KindOf(err) != carillon.InvalidArgument {
		t.Errorf("a completion without outcome gave %v", err)
	}
}
