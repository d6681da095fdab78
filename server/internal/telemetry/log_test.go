package telemetry_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/telemetry"
)

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// TestTakeStandardLog has net/http write to the standard logger, as it does of a handler that panics.
func TestTakeStandardLog(t *testing.T) {
	var out lockedBuffer
	telemetry.TakeStandardLog(telemetry.NewLogger(&out, true, slog.LevelDebug))
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("on purpose") }))
	if resp, err := s.Client().Get(s.URL); err == nil {
		resp.Body.Close()
		t.Error("answered")
	}
	s.Close() // waits for the connection, which logs before it ends
	if got := out.String(); !strings.Contains(got, `"level":"DEBUG","msg":"http: panic serving`) {
		t.Errorf("got %s", got)
	}
}

// TestDurationsAreReadable in both forms of the log, also in groups.
func TestDurationsAreReadable(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1_234_567_891: "1.235s", 90 * time.Second: "1m30s", 2_345_678: "2.346ms", 700: "700ns", 0: "0s",
		-1_234_567_891: "-1.235s", 999_999_999: "1s",
	} {
		for form, has := range map[bool][]string{
			true:  {`"took":"` + want + `"`, `"of":{"took":"` + want + `"}`},
			false: {" took=" + want + " ", "of.took=" + want + "\n"},
		} {
			var out lockedBuffer
			telemetry.NewLogger(&out, form, slog.LevelInfo).Info("x", "took", d, slog.Group("of", "took", d))
			for _, h := range has {
				if !strings.Contains(out.String(), h) {
					t.Errorf("%v: %s lacks %s", d, out.String(), h)
				}
			}
		}
	}
}
