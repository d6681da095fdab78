package carillon

import (
	"errors"
	"fmt"
	"time"
)

// Kind classifies errors; it is the stable code of the API. A Kind is itself an error, for errors.Is(err,
// carillon.NotFound).
type Kind uint8

// The kinds.
const (
	Internal Kind = iota // a bug or a broken store
	InvalidArgument
	NotFound
	AlreadyExists
	FailedPrecondition // a stale token, another generation, a run that cannot be acted on any more
	ResourceExhausted
	Unauthenticated
	PermissionDenied
	Unavailable // try again
	DeadlineExceeded
	Canceled // the caller went away
	DataLoss // the answer is in a damaged part of the store; trying again does not help
)

var kindNames = [...]string{"internal", "invalid_argument", "not_found", "already_exists",
	"failed_precondition", "resource_exhausted", "unauthenticated", "permission_denied", "unavailable",
	"deadline_exceeded", "canceled", "data_loss"}

// String returns the code of the API.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[Internal]
}

// Error is String, so that a Kind can be the target of errors.Is.
func (k Kind) Error() string { return k.String() }

// Error is the error of all calls. It is the same on client and server and crosses the wire whole, except
// Err.
type Error struct {
	Kind    Kind
	Field   string // the field at fault by its API name, e.g. "target.http.url"; "" if none
	Message string // a sentence that a user can act on
	// Unknown: the change may or may not have been made. The caller must look, or repeat it if that is
	// harmless.
	Unknown bool
	// RetryAfter is after how long the call may succeed, of a call that is refused for its rate; 0: not known.
	RetryAfter time.Duration
	Err        error // the cause; does not cross the wire
}

// Error returns "kind: field: message".
func (e *Error) Error() string {
	if e.Field != "" {
		return e.Kind.String() + ": " + e.Field + ": " + e.Message
	}
	return e.Kind.String() + ": " + e.Message
}

// Is makes errors.Is(err, carillon.NotFound) work.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error; a %w operand becomes its cause.
func Errorf(kind Kind, field, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Field: field, Message: err.Error(), Err: errors.Unwrap(err)}
}

// invalid returns an Error of the kind InvalidArgument.
func invalid(field, format string, args ...any) *Error {
	return Errorf(InvalidArgument, field, format, args...)
}

// WithField returns err with another field; what is no [Error] is returned as it is.
func WithField(err error, field string) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	named := *e
	named.Field = field
	return &named
}

// KindOf returns the kind of err: Internal if it is not an [Error].
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}
