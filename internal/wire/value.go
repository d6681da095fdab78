package wire

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon/schedule"
)

// durationText is d as the API writes it; zero is "not given".
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
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
		f.keep(invalid(field, "it is no time"))
		return time.Time{}
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
func enumFrom[W ~uint8, P ~int32](f *first, p P, values map[int32]string, field string) W {
	if p == 0 {
		return 0
	}
	if _, ok := values[int32(p)]; !ok {
		f.keep(invalid(field, "%d is no value of it", p))
		return 0
	}
	return W(p - 1)
}

// toEach converts a list; nil stays nil.
func toEach[T, M any](list []T, toProto func(*T) M) []M {
	if list == nil {
		return nil
	}
	ms := make([]M, len(list))
	for i := range list {
		ms[i] = toProto(&list[i])
	}
	return ms
}

// fillEach is toEach in one block of memory.
func fillEach[T, M any](list []T, fill func(*M, *T)) []*M {
	block, i := make([]M, len(list)), -1
	return toEach(list, func(t *T) *M {
		i++
		fill(&block[i], t)
		return &block[i]
	})
}

// fromEach is the reverse.
func fromEach[M, T any](ms []M, fromProto func(M) T) []T {
	if ms == nil {
		return nil
	}
	list := make([]T, len(ms))
	for i, m := range ms {
		list[i] = fromProto(m)
	}
	return list
}

// first collects the first of several errors, so that a conversion reads as a list of fields.
type first struct{ err error }

func (f *first) keep(err error) {
	if f.err == nil {
		f.err = err
	}
}

// duration reads a Go or ISO 8601 duration; "" is zero.
func (f *first) duration(text, field string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := schedule.ParseDuration(text)
	if e, ok := errors.AsType[*schedule.Error](err); ok {
		err = invalid(field, "%s (at position %d of %q)", e.Msg, e.Pos, clip(text))
	}
	f.keep(err)
	return d
}
