package telemetry_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

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
