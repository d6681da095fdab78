package httptarget

import (
	"context"
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// TestSignature holds the signature against the vector that Standard Webhooks' own libraries are tested with,
// and against one computed with Python's hmac.
func TestSignature(t *testing.T) {
	first, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	second, err := ParseSecret("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	if err != nil {
		t.Fatal(err)
	}
	h := header{http.Header{}, nil}
	b := &body{run: &carillon.Run{Data: carillon.Data{Bytes: []byte(`{"test": 2432232314}`)}}}
	if err := h.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", b, [][]byte{first, second},
		time.Unix(1614265330, 0)); err != nil {
		t.Fatal(err)
	}
	want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1,O4Gjv1HqPqsMrjmczoggs/sWA8gZD0VyHG+fLh4+ktI="
	if got := h.fields.Get("Webhook-Signature"); got != want {
		t.Errorf("signature %s", got)
	}
	if h.fields.Get("Webhook-Id") != "msg_p5jXN8AQM9LWM0D4loKWxJek" ||
		h.fields.Get("Webhook-Timestamp") != "1614265330" {
		t.Errorf("%v", h.fields)
	}
}

func TestParseSecret(t *testing.T) {
	for _, bad := range []string{"", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_!",
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		if _, err := ParseSecret(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestRequest(t *testing.T) {
	d := newDelivery(7, "https://reports.example.com/run?x=1")
	d.Run.Job = `größe/"50%" x`
	d.Run.Attempt = 3
	d.Target.HTTP.Headers = map[string]string{"x-team": "billing", "Idempotency-Key": "mine",
		"Carillon-Token": "forged", "user-agent": "theirs", "ce-id": "forged"}
	secrets := [][]byte{make([]byte, 32)}
	req, err := newRequest(context.Background(), &d, &body{run: d.Run}, secrets, time.Unix(1_800_000_001, 0))
	if err != nil {
		t.Fatal(err)
	}
	trace := regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`)
	parent := req.Header.Get("Traceparent")
	if !trace.MatchString(parent) || strings.Contains(parent, "-0000000000000000") {
		t.Errorf("traceparent %q", parent)
	}
	want := map[string]string{
		"Content-Type": "application/json", "Ce-Specversion": "1.0", "Ce-Id": d.Run.ID,
		"Ce-Type": "com.carillonhq.run", "Ce-Source": "/v1/namespaces/default/jobs/gr%25C3%25B6%25C3%259Fe/%252250%2525%2522%2520x",
		"Ce-Subject": "gr%C3%B6%C3%9Fe/%2250%25%22%20x", "Ce-Time": "2027-01-15T08:00:00Z",
		"Idempotency-Key": d.Run.ID, "Carillon-Job": "default/gr%C3%B6%C3%9Fe/%2250%25%22%20x",
		"Carillon-Scheduled-Time": "2027-01-15T08:00:00Z", "Carillon-Attempt": "3",
		"Carillon-Deadline": "2027-01-15T08:00:30Z", "Carillon-Token": d.Run.Token, "X-Team": "billing",
		"User-Agent": "theirs", "Webhook-Id": d.Run.ID, "Webhook-Timestamp": "1800000001", "Traceparent": parent,
		"Webhook-Signature": req.Header.Get("Webhook-Signature"),
	}
	for name, value := range want {
		if got := req.Header[name]; len(got) != 1 || got[0] != value {
			t.Errorf("%s: %q, not %q", name, got, value)
		}
	}
	if len(req.Header) != len(want) {
		t.Errorf("%d headers, not %d: %v", len(req.Header), len(want), req.Header)
	}
	if req.Method != http.MethodPost || req.Host != "reports.example.com" || req.ContentLength != 3 ||
		req.GetBody == nil {
		t.Errorf("%s %s, %d bytes", req.Method, req.Host, req.ContentLength)
	}
}

// TestARequestSaysThatTheStoreIsAway, and no job can say so by itself.
func TestARequestSaysThatTheStoreIsAway(t *testing.T) {
	for _, away := range []bool{false, true} {
		d := newDelivery(7, "https://reports.example.com/run")
		d.Target.HTTP.Headers, d.StoreAway = map[string]string{"carillon-store": "gone"}, away
		req, err := newRequest(context.Background(), &d, &body{run: d.Run}, nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if want, got := map[bool]string{true: "away"}[away], req.Header.Get("Carillon-Store"); got != want {
			t.Errorf("away %v: %q", away, got)
		}
	}
}

func TestTrace(t *testing.T) {
	of := func(run string, attempt int) string {
		d := newDelivery(1, "http://example.com/")
		d.Run.ID, d.Run.Attempt = run, attempt
		return traceHeaders(t, &d)[0]
	}
	a, b, other := of("run", 1), of("run", 2), of("other", 1)
	if a[:36] != b[:36] || a[:36] == other[:36] || a == b {
		t.Errorf("%s %s %s", a, b, other)
	}
}

// traceHeaders returns traceparent and tracestate of the request of a delivery.
func traceHeaders(t *testing.T, d *delivery.Delivery) [2]string {
	t.Helper()
	req, err := newRequest(context.Background(), d, &body{run: d.Run}, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return [2]string{req.Header.Get("Traceparent"), req.Header.Get("Tracestate")}
}

func TestTheTraceOfTheAttemptIsSent(t *testing.T) {
	d := newDelivery(1, "http://example.com/")
	d.Trace = delivery.NewTrace([16]byte{15: 1}, [8]byte{7: 2}, 0, "a=1")
	want := [2]string{"00-00000000000000000000000000000001-0000000000000002-00", "a=1"}
	if got := traceHeaders(t, &d); got != want {
		t.Errorf("%q", got)
	}
}

func TestNoRequestCanBeMade(t *testing.T) {
	for _, to := range []string{"ftp://example.com/", "http://exa mple.com/", "gopher:x", ""} {
		d := open(t, New(Options{}))
		v := newDelivery(1, to)
		if r := d.do(t, v); !r.Permanent || !strings.HasPrefix(r.Message, "no request can be made: ") {
			t.Errorf("%q: %+v", to, r.Result)
		}
	}
	v := newDelivery(1, "http://example.com/")
	v.Target = carillon.WorkerQueue("q")
	if _, err := newRequest(context.Background(), &v, &body{run: v.Run}, nil, time.Now()); err == nil {
		t.Error("a worker target made a request")
	}
}
