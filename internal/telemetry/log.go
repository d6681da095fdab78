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
