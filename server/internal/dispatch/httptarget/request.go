package httptarget

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// newRequest returns the request of a delivery. An error means that no request can ever be made for the job's
// target.
func newRequest(ctx context.Context, d *delivery.Delivery, b *body, secrets [][]byte,
	now time.Time) (*http.Request, error) {
	to := d.Target.HTTP
	if to == nil {
		return nil, fmt.Errorf("this is not an HTTP target")
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(to.Method, http.MethodPost), to.URL,
		bytes.NewReader(d.Run.Data.Bytes))
	if err != nil {
		return nil, err
	}
	b.stream(req)
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return nil, fmt.Errorf("the URL's scheme is %q, not http or https", req.URL.Scheme)
	}
	h := header{make(http.Header, ownHeaders+len(to.Headers)), make([]string, 0, ownHeaders)}
	for name, value := range to.Headers { // job validation has refused those about the connection
		h.fields[http.CanonicalHeaderKey(name)] = []string{value}
	}
	h.describe(d.Run)
	h.trace(d)
	delete(h.fields, "Carillon-Store")
	if d.StoreAway {
		h.set("Carillon-Store", delivery.StoreIsAway)
	}
	if len(secrets) > 0 {
		if err := h.sign(d.Run.ID, b, secrets, now); err != nil {
			return nil, err
		}
	}
	if h.fields["User-Agent"] == nil {
		h.set("User-Agent", "carillon")
	}
	req.Header = h.fields
	return req, nil
}

// ownHeaders is how many headers newRequest sets itself.
const ownHeaders = 20

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
	job, scheduled := delivery.HeaderValue(r.Job), r.Scheduled.UTC().Format(time.RFC3339Nano)
	if !delivery.IsEvent(r.Data.ContentType) {
		h.set("Ce-Specversion", "1.0")
		h.set("Ce-Id", r.ID)
		h.set("Ce-Source", delivery.HeaderValue(delivery.EventSource(r)))
		h.set("Ce-Type", delivery.EventType)
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

// trace sets the headers of the attempt's trace context.
func (h *header) trace(d *delivery.Delivery) {
	t := d.TraceContext()
	h.set("Traceparent", t.Parent())
	if state := t.State(); state != "" {
		h.set("Tracestate", state)
	}
}

// sign adds the headers of Standard Webhooks, with a signature for each secret.
func (h *header) sign(id string, b *body, secrets [][]byte, now time.Time) error {
	at := strconv.FormatInt(now.Unix(), 10)
	h.set("Webhook-Id", id)
	h.set("Webhook-Timestamp", at)
	macs, all := make([]hash.Hash, len(secrets)), make([]io.Writer, len(secrets))
	for i, secret := range secrets {
		macs[i] = hmac.New(sha256.New, secret)
		macs[i].Write([]byte(id + "." + at + "."))
		all[i] = macs[i]
	}
	if err := b.writeTo(io.MultiWriter(all...)); err != nil {
		return err
	}
	signatures := make([]string, len(secrets))
	for i, mac := range macs {
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	h.set("Webhook-Signature", strings.Join(signatures, " "))
	return nil
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
