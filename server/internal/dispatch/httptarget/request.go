package httptarget

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// newRequest returns the request of a delivery. An error means that no request can ever be made for the job's
// target.
func newRequest(ctx context.Context, d *delivery.Delivery, secrets [][]byte, now time.Time) (*http.Request,
	error) {
	to := d.Target.HTTP
	if to == nil {
		return nil, fmt.Errorf("this is not an HTTP target")
	}
	body := d.Run.Data.Bytes
	req, err := http.NewRequestWithContext(ctx, cmp.Or(to.Method, http.MethodPost), to.URL,
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return nil, fmt.Errorf("the URL's scheme is %q, not http or https", req.URL.Scheme)
	}
	h := header{make(http.Header, ownHeaders+len(to.Headers)), make([]string, 0, ownHeaders)}
	for name, value := range to.Headers { // job validation has refused those about the connection
		h.fields[http.CanonicalHeaderKey(name)] = []string{value}
	}
	h.describe(d.Run)
	h.trace(d)
	if len(secrets) > 0 {
		h.sign(d.Run.ID, body, secrets, now)
	}
	if h.fields["User-Agent"] == nil {
		h.set("User-Agent", "carillon")
	}
	req.Header = h.fields
	return req, nil
}

// ownHeaders is how many headers newRequest sets itself.
const ownHeaders = 19

// header is a header under construction; values is room for Carillon's own, to avoid an allocation for each.
type header struct {
	fields http.Header
	values []string
}

// set sets a header by its canonical name.
func (h *header) set(name, value string) {
	h.values = append(h.values, value)
	n := len(h.values)
	h.fields[name] = h.values[n-1 : n : n]
}

// describe sets the headers that describe the run.
func (h *header) describe(r *carillon.Run) {
	if r.Data.ContentType != "" {
		h.set("Content-Type", r.Data.ContentType)
	}
	job, scheduled := escape(r.Job), r.Scheduled.UTC().Format(time.RFC3339Nano)
	if !strings.HasPrefix(strings.ToLower(r.Data.ContentType), structured) {
		h.set("Ce-Specversion", "1.0")
		h.set("Ce-Id", r.ID)
		h.set("Ce-Source", "/v1/namespaces/"+r.Namespace+"/jobs/"+(&url.URL{Path: r.Job}).EscapedPath())
		h.set("Ce-Type", "com.carillonhq.run")
		h.set("Ce-Subject", job)
		h.set("Ce-Time", scheduled)
	}
	h.set("Idempotency-Key", r.ID)
	h.set("Carillon-Job", r.Namespace+"/"+job)
	h.set("Carillon-Scheduled-Time", scheduled)
	h.set("Carillon-Attempt", strconv.Itoa(r.Attempt))
	h.set("Carillon-Deadline", r.Deadline.UTC().Format(time.RFC3339Nano))
	h.set("Carillon-Token", r.Token)
}

// structured begins the media types of CloudEvents whose attributes are in the payload. The request then
// has none of its own beside them.
const structured = "application/cloudevents"

// escape percent-encodes what CloudEvents' HTTP binding (§3.1.3.2) does not allow in a header.
func escape(s string) string {
	plain := func(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }
	n := 0
	for n < len(s) && plain(s[n]) {
		n++
	}
	if n == len(s) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if plain(s[i]) {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}

// trace sets the headers of the trace context that the attempt has, or else of one of the run: all attempts
// of a run share the trace, each has a span of its own.
func (h *header) trace(d *delivery.Delivery) {
	t := d.Trace
	if !t.Valid() {
		t = (&delivery.Attempt{RunID: d.Run.ID, Number: d.Run.Attempt}).Fresh()
	}
	h.set("Traceparent", t.Parent())
	if state := t.State(); state != "" {
		h.set("Tracestate", state)
	}
}

// sign adds the headers of Standard Webhooks, with a signature for each secret.
func (h *header) sign(id string, body []byte, secrets [][]byte, now time.Time) {
	at := strconv.FormatInt(now.Unix(), 10)
	h.set("Webhook-Id", id)
	h.set("Webhook-Timestamp", at)
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + at + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	h.set("Webhook-Signature", strings.Join(signatures, " "))
}

// ParseSecret parses a signing secret as Standard Webhooks writes it: whsec_ and base64 of 24 to 64 bytes.
func ParseSecret(s string) ([]byte, error) {
	text, ok := strings.CutPrefix(s, "whsec_")
	if !ok {
		return nil, fmt.Errorf("a signing secret begins with whsec_")
	}
	secret, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(secret) < 24 || len(secret) > 64 {
		return nil, fmt.Errorf("a signing secret is whsec_ and the base64 of 24 to 64 bytes")
	}
	return secret, nil
}
