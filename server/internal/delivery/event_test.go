package delivery

import (
	"net/url"
	"testing"

	"github.com/carillonhq/carillon"
)

func TestEventSource(t *testing.T) {
	r := carillon.Run{Namespace: "default", Job: "a b/ß?"}
	if s := EventSource(&r); s != "/v1/namespaces/default/jobs/a%20b/%C3%9F%3F" {
		t.Error(s)
	}
}

func TestIsEvent(t *testing.T) {
	for contentType, want := range map[string]bool{"application/cloudevents+json": true, "": false,
		"Application/CloudEvents-batch+json; charset=utf-8": true, "application/json": false} {
		if IsEvent(contentType) != want {
			t.Error(contentType)
		}
	}
}

// TestTraceContext: attempts of a run without a trace context share a trace, and each has a span of its own.
func TestTraceContext(t *testing.T) {
	of := func(attempt int) string {
		d := Delivery{Run: &carillon.Run{ID: "r", Attempt: attempt}}
		return d.TraceContext().Parent()
	}
	if a, b := of(1), of(2); len(a) != 55 || a[:36] != b[:36] || a == b || a != of(1) {
		t.Error(a, b)
	}
	own := NewTrace([16]byte{1}, [8]byte{2}, 1, "")
	if d := (Delivery{Run: &carillon.Run{}, Trace: own}); d.TraceContext() != own {
		t.Error(d.TraceContext())
	}
}

// TestHeaderValue by the rules of CloudEvents' HTTP binding, §3.1.3.2: each byte of what is encoded, in capitals,
// and nothing else is; it is decoded to what it was.
func TestHeaderValue(t *testing.T) {
	for value, want := range map[string]string{
		"":                        "",
		"nightly/a-b_c.d~e":       "nightly/a-b_c.d~e",
		"Euro € 😀":                "Euro%20%E2%82%AC%20%F0%9F%98%80", // the binding's example
		`50% "off"`:               "50%25%20%22off%22",
		"a%20b":                   "a%2520b",
		"\x00\t\r\n\x7f":          "%00%09%0D%0A%7F",
		"!#$&'()*+,-./:;<=>?@[]^": "!#$&'()*+,-./:;<=>?@[]^",
		"\\_`{|}~":                "\\_`{|}~",
	} {
		got := HeaderValue(value)
		if got != want {
			t.Errorf("%q: %q, not %q", value, got, want)
		}
		if back, err := url.PathUnescape(got); err != nil || back != value {
			t.Errorf("%q is decoded to %q, %v", got, back, err)
		}
	}
	for c := range 256 {
		encoded := HeaderValue(string([]byte{byte(c)})) != string([]byte{byte(c)})
		if visible := c >= 0x21 && c <= 0x7e; encoded != (!visible || c == '"' || c == '%') {
			t.Errorf("%#x is encoded: %v", c, encoded)
		}
	}
}
