package httpapi

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// Headers that say what a call's message could say as well.
const (
	headerIfMatch     = "If-Match"
	headerIfNoneMatch = "If-None-Match"
	headerToken       = "Carillon-Token"
)

// conditional reports whether a request is to be done under a condition only. HTTP has a status of its own
// for that.
func conditional(r *http.Request) bool { return has(r, headerIfMatch) || has(r, headerIfNoneMatch) }

// has reports whether a request has a header. One that is empty is there: a caller whose ETag was lost on the
// way must not change what it has not seen.
func has(r *http.Request, header string) bool { return len(r.Header.Values(header)) > 0 }

// only is the value of a header that may be given once.
func only(r *http.Request, header string) (string, error) {
	values := r.Header.Values(header)
	if len(values) > 1 {
		return "", invalid(header, "given twice")
	}
	return values[0], nil
}

// readHeaders puts what the headers say into the message. A condition that the call cannot honour is refused:
// ignoring it would do what the caller asked not to be done.
func readHeaders(r *http.Request, req proto.Message) error {
	if m, ok := req.(*pb.CompleteRunRequest); ok && r.Header.Get(headerToken) != "" {
		m.Token = r.Header.Get(headerToken)
	}
	if m, ok := req.(*pb.WatchRequest); ok { // of a browser that comes back, the query says where it began
		m.Position = cmp.Or(r.Header.Get(headerLastEventID), m.GetPosition())
	}
	if reads(r) || !conditional(r) {
		return nil
	}
	var generation *uint64
	var absent *bool
	switch m := req.(type) {
	case *pb.PutJobRequest:
		generation, absent = &m.IfGeneration, &m.IfAbsent
	case *pb.PatchJobRequest:
		generation = &m.IfGeneration
	case *pb.DeleteJobRequest:
		generation = &m.IfGeneration
	case *pb.PutNamespaceRequest:
		generation = &m.Generation
	case *pb.PutCalendarRequest:
		generation = &m.Generation
	case *pb.DeleteCalendarRequest:
		generation = &m.IfGeneration
	}
	switch {
	case generation == nil && has(r, headerIfMatch):
		return wire.NotSupported(headerIfMatch)
	case absent == nil && has(r, headerIfNoneMatch):
		return wire.NotSupported(headerIfNoneMatch)
	}
	return cmp.Or(ifMatch(r, generation), ifNoneMatch(r, absent))
}

// ifMatch reads `If-Match: "<generation>"`, which must be what the body or the query says, if that says any.
func ifMatch(r *http.Request, generation *uint64) error {
	if !has(r, headerIfMatch) {
		return nil
	}
	tag, err := only(r, headerIfMatch)
	if err != nil {
		return err
	}
	inner, opened := strings.CutPrefix(tag, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	n, err := strconv.ParseUint(inner, 10, 64)
	if !opened || !closed || err != nil || n == 0 {
		return invalid(headerIfMatch, `must be a generation in quotes, such as "3"`)
	}
	if *generation != 0 && *generation != n {
		return invalid(headerIfMatch, "is %d, and the request says %d; leave one of them out", n, *generation)
	}
	*generation = n
	return nil
}

// ifNoneMatch reads `If-None-Match: *`.
func ifNoneMatch(r *http.Request, absent *bool) error {
	if !has(r, headerIfNoneMatch) {
		return nil
	}
	tag, err := only(r, headerIfNoneMatch)
	if err == nil && tag != "*" {
		err = invalid(headerIfNoneMatch, "must be *")
	}
	*absent = err == nil
	return err
}

// setETag says the generation of what is in a reply.
func setETag(w http.ResponseWriter, reply proto.Message) {
	var n uint64
	switch m := reply.(type) {
	case *pb.Job:
		n = m.GetStatus().GetGeneration()
	case *pb.PutJobResponse:
		n = m.GetJob().GetStatus().GetGeneration()
	case *pb.Namespace:
		n = m.GetGeneration()
	case *pb.Calendar:
		n = m.GetGeneration()
	}
	if n != 0 {
		w.Header().Set("ETag", `"`+strconv.FormatUint(n, 10)+`"`)
	}
}
