package schedule

import "fmt"

// Error says what is wrong with a text and where. Every error of this package is one.
type Error struct {
	Expr string // the text as given
	// "second" … "year", "time zone", "interval", "phase", "repeat", "start", "period", "schedule", "time",
	// "duration"
	Field string
	Pos   int    // byte offset in Expr, from 0
	Msg   string // what is wrong and what would be right
}

// Error reads like `schedule: minute at position 2: 61 is out of range 0-59`.
func (e *Error) Error() string {
	return fmt.Sprintf("schedule: %s at position %d: %s", e.Field, e.Pos, e.Msg)
}

// span is a piece of the text being parsed and the byte offset it starts at.
type span struct {
	text string
	pos  int
}

// from is the rest of the span after n bytes.
func (s span) from(n int) span { return span{s.text[n:], s.pos + n} }

// to is the first n bytes of the span.
func (s span) to(n int) span { return span{s.text[:n], s.pos} }

// fail is the error of one field, before the whole text is known.
func (s span) fail(field, format string, args ...any) *Error {
	return &Error{Field: field, Pos: s.pos, Msg: fmt.Sprintf(format, args...)}
}

// quote shows a piece of the text in a message, shortened: a message must stay readable whatever was sent.
func quote(text string) string {
	if short := shorten(text); len(short) < len(text) {
		return fmt.Sprintf("%q…", short)
	}
	return fmt.Sprintf("%q", text)
}

func shorten(text string) string { return text[:min(len(text), 40)] }
