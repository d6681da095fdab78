// Package bucket says what package object needs of an object storage: objects that are read and written
// whole, on conditions. Packages s3, gcs and azblob speak to those of Amazon, Google and Microsoft.
package bucket

import (
	"context"
	"errors"
	"time"
)

// Bucket is a place for objects, by names with slashes in them. It is safe for concurrent use. What was
// written is seen by whoever reads or lists after the answer. It tries nothing again: its caller knows what
// that would mean.
//
// After any error that is not one of this package's it is not known whether a write was done: it may be, and
// it may still come.
type Bucket interface {
	// Get returns an object; [ErrAbsent] if there is none, and [ErrSame] if it has the version that the caller
	// knows, which may be empty.
	Get(ctx context.Context, name string, known Version) (Object, error)
	// Create writes an object if there is none of that name; otherwise it returns [ErrExists].
	Create(ctx context.Context, name string, data []byte) (Version, error)
	// Replace writes an object if it has that version; otherwise it returns [ErrChanged], also if it is gone.
	Replace(ctx context.Context, name string, data []byte, was Version) (Version, error)
	// Delete removes an object, which need not be there.
	Delete(ctx context.Context, name string) error
	// List returns objects whose names begin with a prefix and come after one, in the order of their names: at
	// most limit, which is at most [MostListed].
	List(ctx context.Context, prefix, after string, limit int) (Page, error)
}

// MostListed is how many objects a request may list.
const MostListed = 1000

// Version tells whether an object was written since. It says nothing of the order, and may be the same after
// the same bytes were written.
type Version string

// Object is an object as it was read.
type Object struct {
	Data    []byte
	Version Version
}

// Page is a part of a list.
type Page struct {
	Entries []Entry
	// More says that there may be more behind them, also if they are fewer than was asked for. There are some
	// then.
	More bool
}

// Entry is an object in a list.
type Entry struct {
	Name     string
	Size     int64
	Modified time.Time // by the bucket's clock, perhaps to the second
}

// Conditions that did not hold.
var (
	ErrAbsent  = errors.New("bucket: there is no such object")
	ErrSame    = errors.New("bucket: the object has not changed")
	ErrExists  = errors.New("bucket: there is such an object already")
	ErrChanged = errors.New("bucket: the object has changed, or is gone")
)

// ErrRefused is the error of a request that the bucket refuses, and will refuse again: there is no such
// bucket, or its credentials do not allow it.
var ErrRefused = errors.New("bucket: the request is refused")
