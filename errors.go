package carillon

import (
	"errors"
	"fmt"
	"strings"
)

// Kind classes errors; it is the stable code of the API. A Kind is itself an error, for errors.Is(err, carillon.NotFound).
type Kind uint8

// The kinds.
const (
	Internal Kind = iota // a bug or a broken store
	InvalidArgument
	NotFound
	AlreadyExists
	FailedPrecondition // a stale token, another generation, a run that is no longer there to act on
	ResourceExhausted
	Unauthenticated
	PermissionDenied
	Unavailable // try again
	DeadlineExceeded
	Canceled // the caller went away
	DataLoss // what was asked for stood in a part of the store that is damaged; trying again does not help
)

var kindNames = [...]string{"internal", "invalid_argument", "not_found", "already_exists", "failed_precondition",
	"resource_exhausted", "unauthenticated", "permission_denied", "unavailable", "deadline_exceeded", "canceled", "data_loss"}

// String is the code as in the API.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[Internal]
}

// Error is String: a Kind can be the target of errors.Is.
func (k Kind) Error() string { return k.String() }

// ParseKind is the kind of a code of the API; unknown codes are Internal.
func ParseKind(code string) Kind {
	for i, n := range kindNames {
		if n == code {
			return Kind(i)
		}
	}
	return Internal
}

// Error is what a caller meets: the same on client and server, it crosses the wire whole.
type Error struct {
	Kind    Kind
	Field   string // the offending field as the API writes it, e.g. "target.http.url"; "" if none
	Message string // a sentence that a user can act on
	// Unknown says that the change may or may not have been made: the caller must look, or repeat it if that is harmless.
	Unknown bool
	Err     error // the cause; does not cross the wire
}

// Error is "field: message" with the kind in front.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Kind.String())
	b.WriteString(": ")
	if e.Field != "" {
		b.WriteString(e.Field)
		b.WriteString(": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Is makes errors.Is(err, carillon.NotFound) work.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error; a %w operand becomes its cause.
func Errorf(kind Kind, field, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Field: field, Message: err.Error(), Err: errors.Unwrap(err)}
}

// WithField is err about another field; what is no [Error] stays as it is.
func WithField(err error, field string) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	named := *e
	named.Field = field
	return &named
}

// notSupported is what is said of everything that exists in the API but is not built.
const notSupported = "not supported yet"

// NotSupported refuses a field that exists in the API but is not built.
func NotSupported(field string) *Error {
	return &Error{Kind: InvalidArgument, Field: field, Message: notSupported}
}

// KindOf is the kind of err: Internal if it is not an [Error].
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}
