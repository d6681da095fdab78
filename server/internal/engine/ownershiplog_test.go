package engine_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestOneEventIsOneLine: in the log, however many partitions it concerns.
func TestOneEventIsOneLine(t *testing.T) {
	for _, lanes := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			var text strings.Builder
			f := startFleet(t, memory.New(memory.Options{Partitions: 4}), 1, func(_ int, c *engine.Config) {
				c.Lanes, c.Log = lanes, slog.New(slog.NewTextHandler(&text, nil))
			})
			n := f.nodes[0]
			n.Assign(f.all)
			f.settled()
			n.Assign(nil)
			for len(n.Holdings()) > 0 {
				<-time.After(time.Millisecond)
			}
			n.Assign(f.all) // at once: earlier entries are logged first
			f.settled()
			f.stop()
			var got []string
			for line := range strings.Lines(text.String()) {
				_, line, _ = strings.Cut(line, "msg=")
				line, _, _ = strings.Cut(line, " took")
				got = append(got, strings.TrimSpace(line))
			}
			const of = ` count=4 partitions="[0 1 2 3]"`
			want := []string{`"partitions owned"` + of, `"partitions handed over"` + of, `"partitions owned"` + of}
			if !slices.Equal(got, want) {
				t.Errorf("with %d lanes it says\n%s", lanes, &text)
			}
		})
	}
}
