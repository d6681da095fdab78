package carillon

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

func (j *Job) checkTarget(lim *Bounds) error {
	t := j.Target
	switch n := t.count(); {
	case n == 0:
		return Errorf(InvalidArgument, "target", "it is missing; give worker or http")
	case n > 1:
		return Errorf(InvalidArgument, "target", "there are %d; give exactly one", n)
	case t.Worker != nil:
		return ValidateQueueName("target.worker.queue", t.Worker.Queue)
	case t.HTTP != nil:
		return t.HTTP.check(lim)
	case t.Dapr != nil:
		return t.Dapr.check()
	}
	return NotSupported("target." + t.Kind())
}

// methods are those that an HTTP target may use: CONNECT and TRACE are not for deliveries.
var methods = []string{"POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"}

func (t *HTTPTarget) check(lim *Bounds) error {
	if err := checkURL(t.URL, lim.URL); err != nil {
		return err
	}
	if t.Method != "" && !slices.Contains(methods, t.Method) {
		return Errorf(InvalidArgument, "target.http.method", "%q is not one of %s", clip(t.Method), strings.Join(methods, ", "))
	}
	return checkHeaders(t.Headers, lim.Headers)
}

// checkURL never shows the URL in an error: it may contain a password.
func checkURL(raw string, most int) error {
	const field = "target.http.url"
	if len(raw) > most {
		return tooLarge(field, len(raw), most)
	}
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return Errorf(InvalidArgument, field, "it is missing")
	case err != nil || !utf8.ValidString(raw):
		return Errorf(InvalidArgument, field, "it is not a URL; write for example https://example.com/run")
	case u.Scheme != "http" && u.Scheme != "https":
		return Errorf(InvalidArgument, field, "it must begin with http:// or https://")
	case u.Hostname() == "":
		return Errorf(InvalidArgument, field, "it has no host; write for example https://example.com/run")
	case !isPort(u.Port()) || strings.HasSuffix(u.Host, ":"):
		return Errorf(InvalidArgument, field, "its port is not between 1 and 65535")
	case u.User != nil:
		return Errorf(InvalidArgument, field, "it must not hold a user name or password; use a header")
	case strings.Contains(raw, "#"):
		return Errorf(InvalidArgument, field, "it must not have a fragment (#…), which is never sent")
	}
	return nil
}

// isPort reports whether s is empty or a port.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return s == "" || (err == nil && n > 0)
}

// Headers that a job must not set, in lower case: Carillon sets them itself, or they concern the connection.
var (
	ownHeaders        = []string{"content-type", "idempotency-key", "traceparent", "tracestate"}
	ownHeaderPrefixes = []string{"ce-", "carillon-", "webhook-"}
	connectionHeaders = []string{"connection", "content-length", "expect", "host", "keep-alive", "proxy-authenticate",
		"proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)

func checkHeaders(headers map[string]string, most int) error {
	const field = "target.http.headers"
	size := 0
	seen := make(map[string]string, len(headers))
	for _, name := range sortedKeys(headers) {
		value, lower := headers[name], strings.ToLower(name)
		size += len(name) + len(": ") + len(value) + len("\r\n")
		if err := checkHeader(field, name, lower, value); err != nil {
			return err
		}
		if other, twice := seen[lower]; twice {
			return Errorf(InvalidArgument, field, "%q and %q are the same header", clip(other), clip(name))
		}
		seen[lower] = name
	}
	if size > most {
		return tooLarge(field, size, most)
	}
	return nil
}

func checkHeader(field, name, lower, value string) error {
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(lower, prefix) }
	switch {
	case name == "" || strings.ContainsFunc(name, isNotToken):
		return Errorf(InvalidArgument, field, "%q is not a header's name", clip(name))
	case lower == "content-type":
		return Errorf(InvalidArgument, field, "%q is set by Carillon; use the job's field content_type", name)
	case slices.Contains(ownHeaders, lower) || slices.ContainsFunc(ownHeaderPrefixes, hasPrefix):
		return Errorf(InvalidArgument, field, "%q is set by Carillon", clip(name))
	case slices.Contains(connectionHeaders, lower):
		return Errorf(InvalidArgument, field, "%q is about the connection, not the message", name)
	case !utf8.ValidString(value) || strings.ContainsFunc(value, isControl):
		return Errorf(InvalidArgument, field, "the value of %q has a character that a header cannot hold", clip(name))
	}
	return nil
}

// isNotToken reports whether r is not allowed in a header's name (RFC 9110, 5.6.2).
func isNotToken(r rune) bool {
	letterOrDigit := '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !letterOrDigit && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
