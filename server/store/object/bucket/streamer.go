package bucket

import (
	"context"
	"io"
)

// Streamer is a [Bucket] whose objects can be read and written without being in memory as a whole. The rules
// of Bucket apply. It is optional.
type Streamer interface {
	// Open returns what an object holds, and its size in bytes; [ErrAbsent] if there is none. The reader fails
	// once ctx has ended.
	Open(ctx context.Context, name string) (io.ReadCloser, int64, error)
	// CreateFrom is [Bucket.Create] with the size bytes that r has from its current place on.
	CreateFrom(ctx context.Context, name string, r io.ReadSeeker, size int64) error
}

// Sizer is a [Bucket] that tells the size of an object without a list. It is optional.
type Sizer interface {
	// Size returns the bytes of an object; [ErrAbsent] if there is none.
	Size(ctx context.Context, name string) (int64, error)
}

// Settler is a [Bucket] in which an object can be there that is not durable yet, since who wrote it was not
// told that it is. It is optional.
type Settler interface {
	// Settle returns nil once an object that was seen is durable.
	Settle(ctx context.Context, name string) error
}
