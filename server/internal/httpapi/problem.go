package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/wire"
)

// problem is an RFC 9457 problem document with the members of carillon.v1.Problem.
type problem struct {
	Type           string `json:"type"`
	Title          string `json:"title"`
	Status         int    `json:"status"`
	Code           string `json:"code"`
	Field          string `json:"field,omitempty"`
	Detail         string `json:"detail"`
	OutcomeUnknown bool   `json:"outcome_unknown,omitempty"`
}

// maxField is the most bytes of a field's name: an unknown one is as long as its sender likes.
const maxField = 256

// invalid returns an error of the kind InvalidArgument.
func invalid(field, format string, args ...any) *carillon.Error {
	return carillon.Errorf(carillon.InvalidArgument, field, format, args...)
}

// WriteProblem answers a request with err as a problem document.
func WriteProblem(w http.ResponseWriter, err error) {
	e := wire.ToError(err)
	writeProblem(w, wire.HTTPStatus(e.Kind), e)
}

// writeProblem is WriteProblem with a status that says more than the kind's.
func writeProblem(w http.ResponseWriter, status int, e *carillon.Error) {
	after := wire.RetryAfter(e)
	if status == http.StatusServiceUnavailable {
		after = max(after, time.Second) // also of what is refused with another kind
	}
	if after > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
	title := http.StatusText(status)
	if title == "" {
		title = "Client Closed Request"
	}
	body, err := json.Marshal(problem{Type: "about:blank", Title: title, Status: status, Code: e.Kind.String(),
		Field: clipTo(e.Field, maxField), Detail: e.Message, OutcomeUnknown: e.Unknown})
	if err != nil {
		panic(err) // strings, numbers and booleans can always be encoded
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the caller is gone if this fails
}
