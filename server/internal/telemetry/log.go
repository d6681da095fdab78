package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// LogFormats are the forms in which [NewLogger] can write.
var LogFormats = []string{"text", "json"}

// NewLogger is a logger that writes lines of the format, those of the level and above.
func NewLogger(w io.Writer, format string, level slog.Level) (*slog.Logger, error) {
	o := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("log format: %q is not one of %q", format, LogFormats)
}

// TakeStandardLog lets what libraries write to the standard logger, such as net/http about a connection that
// talks out of turn, come out of to, at level debug: what others do wrong. It is for a program's main, since
// there is one standard logger.
func TakeStandardLog(to *slog.Logger) {
	slog.SetLogLoggerLevel(slog.LevelDebug)
	slog.SetDefault(to)
}
