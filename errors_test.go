package carillon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/carillonhq/carillon"
)

var kinds = []carillon.Kind{carillon.Internal, carillon.InvalidArgument, carillon.NotFound,
	carillon.AlreadyExists, carillon.FailedPrecondition, carillon.ResourceExhausted, carillon.Unauthenticated,
	carillon.PermissionDenied, carillon.Unavailable, carillon.DeadlineExceeded, carillon.Canceled,
	carillon.DataLoss}

func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for i, k := range kinds {
		if int(k) != i || k.Error() != k.String() || seen[k.String()] {
			t.Errorf("kind %d is %d, %q", i, k, k)
		}
		seen[k.String()] = true
	}
	beyond := carillon.Kind(len(kinds))
	if beyond.String() != "internal" {
		t.Errorf("an unknown kind is %q; want internal", beyond)
	}
}

func TestErrorsIs(t *testing.T) {
	for _, k := range kinds {
		err := fmt.Errorf("put: %w", carillon.Errorf(k, "name", "no"))
		for _, other := range kinds {
			if got := errors.Is(err, other); got != (k == other) {
				t.Errorf("Is(%v, %v) = %v", err, other, got)
			}
		}
		if carillon.KindOf(err) != k {
			t.Errorf("KindOf(%v) = %v", err, carillon.KindOf(err))
		}
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Field != "name" || e.Message != "no" {
			t.Errorf("AsType(%v) = %+v, %v", err, e, ok)
		}
	}
	if carillon.KindOf(io.EOF) != carillon.Internal {
		t.Error("a foreign error is not internal")
	}
}

func TestErrorCause(t *testing.T) {
	err := carillon.Errorf(carillon.Unavailable, "", "the store could not be read: %w", io.ErrUnexpectedEOF)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, carillon.Unavailable) {
		t.Errorf("%v is not both its kind and its cause", err)
	}
	if errors.Is(err, context.Canceled) ||
		errors.Unwrap(carillon.Errorf(carillon.NotFound, "", "no %d", 1)) != nil {
		t.Error("a cause that is none")
	}
}

func TestErrorText(t *testing.T) {
	for want, err := range map[string]error{
		"invalid_argument: target.kafka: not yet": carillon.Errorf(carillon.InvalidArgument,
			"target.kafka", "not yet"),
		"not_found: there is no job 7": carillon.Errorf(carillon.NotFound, "", "there is no job %d", 7),
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
