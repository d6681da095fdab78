package wire

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
)

// durationText is d as the API writes it; zero is "not given".
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// duration reads a Go or ISO 8601 duration; "" is zero.
func duration(text, field string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := schedule.ParseDuration(text)
	if e, ok := errors.AsType[*schedule.Error](err); ok {
		return 0, carillon.Errorf(carillon.InvalidArgument, field, "%s (at position %d of %q)", e.Msg, e.Pos, clip(text))
	}
	return d, err
}

// clip shortens what a caller sent, for an error message.
func clip(s string) string {
	const most = 64
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// timestamp is t; the zero time is absent.
func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// fillTimestamp is timestamp in memory that the caller has at hand.
func fillTimestamp(at *timestamppb.Timestamp, t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	at.Seconds, at.Nanos = t.Unix(), int32(t.Nanosecond())
	return at
}

// instant is the time of ts; absent is the zero time.
func instant(ts *timestamppb.Timestamp) time.Time {
	if ts == nil {
		return time.Time{}
	}
	return ts.AsTime()
}

// time is the time of ts; absent is the zero time, and so is one that no time can be made of.
func (f *first) time(ts *timestamppb.Timestamp, field string) time.Time {
	if ts != nil && !ts.IsValid() {
		return keep(f, time.Time{}, carillon.Errorf(carillon.InvalidArgument, field, "it is no time"))
	}
	return instant(ts)
}

// text is s fit for a proto string: what people and programs outside wrote may not be UTF-8, and one such
// byte would lose the whole message.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// clampInt32 keeps a number that is far out of its limits out of its limits.
func clampInt32(n int) int32 { return int32(max(-1<<31, min(n, 1<<31-1))) }

// enumTo maps a word that begins with its default at 0 to an enum that begins with "unspecified" at 0.
func enumTo[P ~int32, W ~uint8](w W) P { return P(w) + 1 }

// enumFrom is the reverse; "unspecified" is the default. values are the enum's names, which say how many
// there are.
func enumFrom[W ~uint8, P ~int32](p P, values map[int32]string, field string) (W, error) {
	if p == 0 {
		return 0, nil
	}
	if _, ok := values[int32(p)]; !ok {
		return 0, carillon.Errorf(carillon.InvalidArgument, field, "%d is no value of it", p)
	}
	return W(p - 1), nil
}

// first collects the first of several errors, so that a conversion reads as a list of fields.
type first struct{ err error }

// keep passes v on and keeps the first err.
func keep[T any](f *first, v T, err error) T {
	if err != nil && f.err == nil {
		f.err = err
	}
	return v
}

// duration is the package's duration, its error kept.
func (f *first) duration(text, field string) time.Duration {
	d, err := duration(text, field)
	return keep(f, d, err)
}
