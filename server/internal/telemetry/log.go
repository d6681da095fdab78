package telemetry

import (
	"io"
	"log/slog"
	"time"
)

// NewLogger is a logger that writes lines of the level and above, as JSON or as text. Durations are as
// [time.Duration.String] writes them, rounded: 1.234s.
func NewLogger(w io.Writer, asJSON bool, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	if asJSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// readable replaces a duration by what people read; slog writes nanoseconds in JSON.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(rounded(a.Value.Duration()).String())
	}
	return a
}

// rounded leaves three digits after the point of the unit that is shown.
func rounded(d time.Duration) time.Duration {
	switch abs := d.Abs(); {
	case abs >= time.Second:
		return d.Round(time.Millisecond)
	case abs >= time.Millisecond:
		return d.Round(time.Microsecond)
	default:
		return d
	}
}

// TakeStandardLog lets what libraries write to the standard logger, such as net/http about a connection that
// talks out of turn, come out of to, at level debug: what others do wrong. It is for a program's main, since
// there is one standard logger.
func TakeStandardLog(to *slog.Logger) {
	slog.SetLogLoggerLevel(slog.LevelDebug)
	slog.SetDefault(to)
}
