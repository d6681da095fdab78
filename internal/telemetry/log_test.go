package telemetry_test

import (
	"bytes"
	"log"
	"log/slog"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/telemetry"
)

func TestTakeStandardLog(t *testing.T) {
	flags, before := log.Flags(), log.Writer()
	t.Cleanup(func() { log.SetFlags(flags); log.SetOutput(before) })
	var out bytes.Buffer
	to, err := telemetry.NewLogger(&out, "json", slog.LevelDebug)
	if err != nil {
		t.Fatal(err)
	}
	telemetry.TakeStandardLog(to)
	log.Printf("Unsolicited response %d", 1)
	if got := out.String(); !strings.Contains(got, `"level":"DEBUG","msg":"Unsolicited response 1"`) {
		t.Errorf("got %s", got)
	}
}
