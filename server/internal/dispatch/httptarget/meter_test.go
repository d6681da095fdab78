package httptarget

import (
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/carillonhq/carillon"
)

// floodMost is what a target may send at most before it counts as not stopped: far more than is metered and
// than fits into the buffers of a connection.
const floodMost = 256 << 20

// flood sends frames that nobody asked for until the connection is closed, and says how many bytes that were.
func flood(s stream) int {
	for sent := 0; ; {
		if err := s.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize,
			Val: 65535}); err != nil || sent > floodMost {
			return sent
		}
		sent += 9 + 6
	}
}

func TestAFloodAfterAnAttemptIsCutOff(t *testing.T) {
	sent := make(chan int, 1)
	e, d := newHTTP2Endpoint(t, func(_ int64, s stream) {
		s.answer()
		go func() { sent <- flood(s) }()
	})
	if r := d.do(t, newDelivery(1, e.url())); r.Outcome != carillon.OutcomeSuccess {
		t.Fatalf("%+v", r.Result)
	}
	if n := <-sent; n > floodMost {
		t.Fatal("the target could go on for ever")
	}
}

func TestAFloodDuringAnAttemptIsCutOff(t *testing.T) {
	sent := make(chan int, 1)
	e, d := newHTTP2Endpoint(t, func(_ int64, s stream) { go func() { sent <- flood(s) }() })
	r := d.do(t, newDelivery(1, e.url()))
	if r.Outcome != 0 || r.Permanent || !strings.HasPrefix(r.Message, "connection: ") {
		t.Errorf("%+v", r.Result)
	}
	if n := <-sent; n > floodMost {
		t.Fatal("the target could go on for ever")
	}
}

// TestAMeterLetsAnswersThrough has far more answers on one connection than it would let through at once.
func TestAMeterLetsAnswersThrough(t *testing.T) {
	body := make([]byte, 16<<10)
	e, d := newHTTP2Endpoint(t, func(_ int64, s stream) {
		s.begin()
		for left := 64 << 10; left > 0; left -= len(body) {
			_ = s.frames.WriteData(s.id, left == len(body), body)
		}
	})
	for i := range 40 {
		if r := d.do(t, newDelivery(i, e.url())); r.Outcome != carillon.OutcomeSuccess {
			t.Fatalf("%d: %+v", i, r.Result)
		}
	}
	if n := e.used.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
