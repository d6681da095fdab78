package telemetry

import (
	"io"
	"log/slog"
)

// NewLogger is a logger that writes lines of the level and above, as JSON or as text.
func NewLogger(w io.Writer, asJSON bool, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if asJSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// TakeStandardLog lets what libraries write to the standard logger, such as net/http about a connection that
// talks out of turn, come out of to, at level debug: what others do wrong. It is for a program's main, since
// there is one standard logger.
func TakeStandardLog(to *slog.Logger) {
	slog.SetLogLoggerLevel(slog.LevelDebug)
	slog.SetDefault(to)
}
