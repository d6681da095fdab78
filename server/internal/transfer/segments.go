package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Segments keeps the segments of a journal, in a [Folder] or a [Bucket].
type Segments interface {
	// Last returns the segment with the greatest number that is less than one; zero: of all. The number is 0 if
	// there is none. That of one that is damaged is returned with the error.
	Last(ctx context.Context, below int) (Stored, error)
	// Chain returns the segments that lead to the last point at or before a time, the first of which is a base;
	// zero: to the last point.
	Chain(ctx context.Context, until time.Time) ([]Stored, error)
	// Create begins a segment that follows a base; it is the base itself if the numbers are the same. It is
	// there only when it has been committed.
	Create(ctx context.Context, number, base int) (Segment, error)
	// Tidy removes what commands that were killed have left of segments up to a base. Its caller has written
	// that, and has told of it: it may take a while.
	Tidy(ctx context.Context, base int)
	// Warned passes on what does no harm at present.
	Warned(err error)
	// Open reads a segment.
	Open(ctx context.Context, s Stored) (io.ReadCloser, error)
}

// Stored is a segment that is there.
type Stored struct {
	Number int
	Base   bool
	Name   string    // of the file or object
	Time   time.Time // of its point; zero if that was not read

	of chainID // of a bucket
}

// Segment is one that is written.
type Segment interface {
	// Write takes what comes next. It may be under way when Write returns.
	io.Writer
	// Settle returns when nothing is under way, so that little can be written without waiting.
	Settle() error
	// Commit makes the segment durable, under the number and time of its point. After an error it may be there.
	Commit(p Point) error
	// Discard ends it without a trace.
	Discard() error
}

var (
	// ErrNoPoint is that a journal has nothing as of the time that was asked for.
	ErrNoPoint = errors.New("no backup is as old as that")
	// errNoBackup is that a journal has nothing.
	errNoBackup = errors.New("there is no backup there")
)

// errMissing is the error of a segment that is not there, though a later one needs it.
func errMissing(number int) error { return fmt.Errorf("%w: segment %d is missing", ErrDamaged, number) }

// errBefore is the error of a time before the first point.
func errBefore(first time.Time) error {
	return fmt.Errorf("%w: the first one is of %s", ErrNoPoint, first.Format(time.RFC3339Nano))
}

// noAnswer is the error of a place that does not answer: nothing is known to be damaged.
type noAnswer struct{ error }

// Unwrap returns why.
func (n noAnswer) Unwrap() error { return n.error }

// damage is err as that of a backup that is damaged, unless its place does not answer.
func damage(err error) error {
	if away, ok := errors.AsType[noAnswer](err); ok {
		return away
	}
	if errors.Is(err, ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}
