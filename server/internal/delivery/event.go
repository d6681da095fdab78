package delivery

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/carillonhq/carillon"
)

// EventType is the type of the CloudEvents as which runs are delivered.
const EventType = "com.carillonhq.run"

// EventSource returns the source of the CloudEvent as which a run is delivered: the path of its job.
func EventSource(r *carillon.Run) string {
	return "/v1/namespaces/" + r.Namespace + "/jobs/" + (&url.URL{Path: r.Job}).EscapedPath()
}

// HeaderValue returns a value as CloudEvents' binding for HTTP has it in a header (§3.1.3.2), and the one for
// NATS: what is not visible ASCII, and each of `"` and `%`, is percent-encoded. Who decodes it once has the
// value again.
func HeaderValue(s string) string {
	plain := func(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }
	n := 0
	for n < len(s) && plain(s[n]) {
		n++
	}
	if n == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:n])
	for i := n; i < len(s); i++ {
		if plain(s[i]) {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}

// IsEvent reports whether a payload of a media type is a CloudEvent itself, with its attributes in it: what
// delivers it then sets none beside them.
func IsEvent(contentType string) bool {
	return strings.HasPrefix(strings.ToLower(contentType), "application/cloudevents")
}

// TraceContext returns the trace context that the attempt has, or else one of the run: all attempts of a run
// share the trace, each has a span of its own.
func (d *Delivery) TraceContext() Trace {
	if d.Trace.Valid() {
		return d.Trace
	}
	return (&Attempt{RunID: d.Run.ID, Number: d.Run.Attempt}).Fresh()
}
