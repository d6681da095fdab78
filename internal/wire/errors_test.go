package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// TestErrorsCrossWhole: what the server returned is what the client meets.
func TestErrorsCrossWhole(t *testing.T) {
	for k := carillon.Internal; k <= carillon.Canceled; k++ {
		for _, unknown := range []bool{false, true} {
			sent := &carillon.Error{Kind: k, Field: "target.http.url", Message: "is wrong", Unknown: unknown,
				Err: errors.New("secret")}
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

// TestErrorsAsOthersReadThem: programs that do not know the problem find the reason and the field in
// google.rpc's details, and what those say alone is the same error.
func TestErrorsAsOthersReadThem(t *testing.T) {
	for k := carillon.Internal; k <= carillon.DataLoss; k++ {
		for _, sent := range []*carillon.Error{
			{Kind: k, Field: "target.http.url", Message: "is wrong"}, {Kind: k, Message: "is wrong"},
			{Kind: k, Field: "name", Message: "is wrong", Unknown: true}, {Kind: k, Message: "\xff", Unknown: true},
		} {
			st := status.Convert(ErrorToStatus(sent))
			var others []protoadapt.MessageV1
			fields, again := 0, time.Duration(0)
			for _, d := range st.Details() {
				switch d := d.(type) {
				case *pb.Problem:
					continue
				case *errdetails.RetryInfo:
					again = d.GetRetryDelay().AsDuration()
				case *errdetails.ErrorInfo:
					if d.GetDomain() != ErrorDomain || d.GetReason() != strings.ToUpper(k.String()) {
						t.Errorf("%+v: %v", sent, d)
					}
				case *errdetails.BadRequest:
					v := d.GetFieldViolations()
					if fields += len(v); v[0].GetField() != sent.Field || v[0].GetDescription() != sent.Message {
						t.Errorf("%+v: %v", sent, d)
					}
				}
				others = append(others, d.(protoadapt.MessageV1))
			}
			if want := k == carillon.InvalidArgument && sent.Field != ""; (fields == 1) != want || fields > 1 {
				t.Errorf("%+v: %d fields to blame", sent, fields)
			}
			if want := k == carillon.Unavailable && !sent.Unknown; (again > 0) != want {
				t.Errorf("%+v: try again after %v", sent, again)
			}
			rest, err := status.New(st.Code(), st.Message()).WithDetails(others...)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := errors.AsType[*carillon.Error](ErrorFromStatus(rest.Err()))
			if !ok || got.Kind != k || got.Field != sent.Field || got.Message != text(sent.Message) ||
				got.Unknown != sent.Unknown || Unanswered(got) {
				t.Errorf("sent %+v, read %+v", sent, got)
			}
		}
	}
	foreign, err := status.New(codes.InvalidArgument,
		"no").WithDetails(&errdetails.ErrorInfo{Reason: "NOT_FOUND", Domain: "else.where"},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "f",
			Description: "d"}}})
	if err != nil {
		t.Fatal(err)
	}
	got, ok := errors.AsType[*carillon.Error](ErrorFromStatus(foreign.Err()))
	if !ok || got.Kind != carillon.InvalidArgument || got.Field != "f" || got.Message != "d" ||
		!Unanswered(got) {
		t.Errorf("of somebody else: %+v", got)
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
		"jitter":                             {Jitter: bad},
		"timeout":                            {Timeout: bad},
		"lease":                              {Lease: bad},
		"catch_up_window":                    {CatchUpWindow: bad},
		"history.keep":                       {History: &pb.History{Keep: bad}},
		"dst":                                {Dst: 99},
		"overlap":                            {Overlap: 99},
		"misfire":                            {Misfire: 99},
		"priority":                           {Priority: 99},
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

// TestPreviewFromNoTime: a time that Go takes for "none", or that is none, is refused rather than read as
// now.
func TestPreviewFromNoTime(t *testing.T) {
	for _, from := range []*timestamppb.Timestamp{timestamppb.New(time.Time{}),
		{Seconds: 1 << 60}, {Nanos: -1}} {
		_, err := PreviewFromProto(&pb.PreviewScheduleRequest{Schedule: "@daily", From: from})
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument ||
			e.Field != "from" {
			t.Errorf("%v: got %v", from, err)
		}
	}
	if _, err := PreviewFromProto(&pb.PreviewScheduleRequest{Schedule: "@daily"}); err != nil {
		t.Errorf("without a time: %v", err)
	}
}

// TestTimesUntilNoTime: the same of the bound of next times.
func TestTimesUntilNoTime(t *testing.T) {
	for _, until := range []*timestamppb.Timestamp{timestamppb.New(time.Time{}), {Seconds: 1 << 60}, {Nanos: -1}} {
		_, err := TimesQueryFromProto(&pb.ListTimesRequest{Until: until})
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument || e.Field != "until" {
			t.Errorf("%v: got %v", until, err)
		}
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

func TestKindsOfTexts(t *testing.T) {
	for k := carillon.Internal; k <= carillon.DataLoss; k++ {
		if got := KindOfText(k.String()); got != k {
			t.Errorf("%q is %v", k, got)
		}
	}
	if got := KindOfText("nonsense"); got != carillon.Internal {
		t.Errorf("an unknown code is %v", got)
	}
}
