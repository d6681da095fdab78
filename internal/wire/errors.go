package wire

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// kinds is what a kind of error is in gRPC and in HTTP.
var kinds = [...]struct {
	code codes.Code
	http int
}{
	carillon.Internal:           {codes.Internal, http.StatusInternalServerError},
	carillon.InvalidArgument:    {codes.InvalidArgument, http.StatusBadRequest},
	carillon.NotFound:           {codes.NotFound, http.StatusNotFound},
	carillon.AlreadyExists:      {codes.AlreadyExists, http.StatusConflict},
	carillon.FailedPrecondition: {codes.FailedPrecondition, http.StatusConflict},
	carillon.ResourceExhausted:  {codes.ResourceExhausted, http.StatusTooManyRequests},
	carillon.Unauthenticated:    {codes.Unauthenticated, http.StatusUnauthorized},
	carillon.PermissionDenied:   {codes.PermissionDenied, http.StatusForbidden},
	carillon.Unavailable:        {codes.Unavailable, http.StatusServiceUnavailable},
	carillon.DeadlineExceeded:   {codes.DeadlineExceeded, http.StatusGatewayTimeout},
	carillon.Canceled:           {codes.Canceled, statusClientClosedRequest},
	carillon.DataLoss:           {codes.DataLoss, http.StatusInternalServerError},
}

// statusClientClosedRequest is what proxies log for a caller that went away; it is never seen by one.
const statusClientClosedRequest = 499

// HTTPStatus is the status of a kind.
func HTTPStatus(k carillon.Kind) int {
	if int(k) >= len(kinds) {
		k = carillon.Internal
	}
	return kinds[k].http
}

// GRPCCode is the code of a kind.
func GRPCCode(k carillon.Kind) codes.Code {
	if int(k) >= len(kinds) {
		k = carillon.Internal
	}
	return kinds[k].code
}

// ToError is err as callers may see it. What is not an [carillon.Error] is a bug or a broken store: it
// becomes Internal without its text, which may hold what a caller must not know; the caller of ToError logs
// it.
func ToError(err error) *carillon.Error {
	if e, ok := errors.AsType[*carillon.Error](err); ok {
		return e
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return &carillon.Error{Kind: carillon.DeadlineExceeded, Message: "the deadline passed",
			Unknown: true, Err: err}
	case errors.Is(err, context.Canceled):
		return &carillon.Error{Kind: carillon.Canceled, Message: "the caller went away", Unknown: true, Err: err}
	}
	return &carillon.Error{Kind: carillon.Internal,
		Message: "internal error; the server's log has the cause", Err: err}
}

// ProblemToProto is the error as the detail of a status.
func ProblemToProto(e *carillon.Error) *pb.Problem {
	return &pb.Problem{Code: e.Kind.String(), Field: text(e.Field), Detail: text(e.Message),
		OutcomeUnknown: e.Unknown}
}

// ErrorDomain is the domain of the reasons in a google.rpc.ErrorInfo: the contract that has them. A reason is
// the code of the problem in capitals.
const ErrorDomain = "carillon.v1"

// Keys of the metadata of a google.rpc.ErrorInfo: what else the problem says.
const (
	infoField   = "field"
	infoUnknown = "outcome_unknown"
)

// RetryAfter is after how long a caller should try again; 0: that is of no use, or not known. What is
// unavailable may be back at any moment, so it is short.
func RetryAfter(e *carillon.Error) time.Duration {
	if e.Kind == carillon.Unavailable {
		return cmp.Or(e.RetryAfter, time.Second)
	}
	return e.RetryAfter
}

// details are the error as the details of a status: the problem, which says all, and what programs know that
// have never heard of Carillon.
func details(e *carillon.Error) []protoadapt.MessageV1 {
	info := &errdetails.ErrorInfo{Reason: strings.ToUpper(e.Kind.String()), Domain: ErrorDomain,
		Metadata: map[string]string{}}
	if e.Field != "" {
		info.Metadata[infoField] = text(e.Field)
	}
	if e.Unknown {
		info.Metadata[infoUnknown] = "true"
	}
	list := []protoadapt.MessageV1{ProblemToProto(e), info}
	if e.Kind == carillon.InvalidArgument && e.Field != "" {
		list = append(list, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: text(e.Field), Description: text(e.Message)}}})
	}
	// If the outcome is unknown the caller must look first.
	if after := RetryAfter(e); after > 0 && !e.Unknown {
		list = append(list, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	return list
}

// fromDetails is the error that a status says; said: a server of ours has said it. Its problem says all. Of
// what somebody in between has passed on without it, as much as is left is taken.
func fromDetails(st *status.Status, cause error) (e *carillon.Error, said bool) {
	e = &carillon.Error{Kind: kindOfCode(st.Code()), Message: st.Message(), Unknown: lost(st.Code()), Err: cause}
	whole := false
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			e.RetryAfter = retryAfter(st.Code(), d)
		case *pb.Problem:
			whole, said = true, true
			e.Kind, e.Field = KindOfText(d.GetCode()), d.GetField()
			e.Message, e.Unknown = d.GetDetail(), d.GetOutcomeUnknown()
		}
	}
	for _, d := range st.Details() {
		if whole {
			break
		}
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == ErrorDomain {
				said = true
				e.Kind = KindOfText(strings.ToLower(d.GetReason()))
				e.Field, e.Unknown = d.GetMetadata()[infoField], d.GetMetadata()[infoUnknown] == "true"
				e.Message = strings.TrimPrefix(st.Message(), e.Field+": ")
			}
		case *errdetails.BadRequest:
			if v := d.GetFieldViolations(); len(v) > 0 && !said {
				e.Field, e.Message = v[0].GetField(), v[0].GetDescription()
			}
		}
	}
	return e, said
}

// retryAfter is what a status says of it. What is unavailable always says something.
func retryAfter(code codes.Code, info *errdetails.RetryInfo) time.Duration {
	if code == codes.Unavailable && info.GetRetryDelay().AsDuration() == time.Second {
		return 0
	}
	return max(0, info.GetRetryDelay().AsDuration())
}

// ErrorToStatus is err as a gRPC error that carries it whole; nil stays nil.
func ErrorToStatus(err error) error {
	if err == nil {
		return nil
	}
	e := ToError(err)
	message := text(e.Message)
	if e.Field != "" {
		message = text(e.Field) + ": " + message
	}
	st := status.New(GRPCCode(e.Kind), message)
	if whole, err := st.WithDetails(details(e)...); err == nil {
		st = whole
	}
	return st.Err()
}

// ErrorFromStatus is a gRPC error as an [carillon.Error], equal to the one that ErrorToStatus was given; nil
// stays nil. One without details of ours was made on the way: after a lost connection or a deadline nobody
// knows whether the server made the change.
func ErrorFromStatus(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*carillon.Error](err); ok {
		return e
	}
	st, ok := status.FromError(err)
	if !ok {
		return ToError(err)
	}
	e, _ := fromDetails(st, err)
	return e
}

// Unanswered reports whether an error of [ErrorFromStatus] was made on the way: the server has not said it.
func Unanswered(e *carillon.Error) bool {
	if e.Err == nil {
		return false
	}
	st, ok := status.FromError(e.Err)
	if !ok {
		return false
	}
	_, said := fromDetails(st, e.Err)
	return !said
}

// kindOfCode is the kind of a code that came without a problem.
func kindOfCode(c codes.Code) carillon.Kind {
	for k, row := range kinds {
		if row.code == c {
			return carillon.Kind(k)
		}
	}
	switch c {
	case codes.OutOfRange, codes.Unimplemented:
		return carillon.InvalidArgument
	case codes.Aborted:
		return carillon.Unavailable
	}
	return carillon.Internal
}

// lost reports whether a code leaves open what the server did.
func lost(c codes.Code) bool {
	switch c {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.Internal,
		codes.Unknown, codes.DataLoss:
		return true
	}
	return false
}

// Within is err with its field placed inside another: "due_time" within "jobs[3]" is "jobs[3].due_time".
func Within(field string, err error) error {
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok {
		return err
	}
	inner := *e
	if inner.Field != "" {
		inner.Field = field + "." + inner.Field
	} else {
		inner.Field = field
	}
	return &inner
}

// invalid returns an error of the kind InvalidArgument.
func invalid(field, format string, args ...any) *carillon.Error {
	return carillon.Errorf(carillon.InvalidArgument, field, format, args...)
}

// NotSupported refuses a field that exists in the API but is not built.
func NotSupported(field string) *carillon.Error {
	return invalid(field, "not supported yet")
}

// KindOfText returns the kind for a code of the API; unknown codes are Internal.
func KindOfText(code string) carillon.Kind {
	for k := carillon.Internal; k <= carillon.DataLoss; k++ {
		if k.String() == code {
			return k
		}
	}
	return carillon.Internal
}
