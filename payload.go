package carillon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strconv"
	"strings"
	"time"
)

// PayloadRef names bytes in the payload store of a cluster. It holds within a namespace: the same reference
// in another namespace names nothing, or that namespace's own copy of the same bytes.
type PayloadRef struct {
	Day    int32             // when the bytes were stored: days since 1970, UTC
	SHA256 [sha256.Size]byte // of the bytes
	Size   int64             // in bytes, at least 1
}

// Payloads keeps large payloads outside the store of the scheduler. Without a payload store every call fails
// with FailedPrecondition.
type Payloads interface {
	// PutPayload stores what r has, as a stream, and returns its reference once it is durable. A job may be put
	// with the reference in Data.Ref; what no job or run refers to is removed after three days.
	PutPayload(ctx context.Context, namespace string, r io.Reader) (PayloadRef, error)
	// GetPayload returns the bytes of a reference; unknown → NotFound. The reader fails with DataLoss, before
	// it returns the last bytes, if they are not those that were stored.
	GetPayload(ctx context.Context, namespace string, ref PayloadRef) (io.ReadCloser, error)
	// CollectPayloads removes what no job and no run refers to and is at least three days old. Nodes do this
	// by themselves once a day.
	CollectPayloads(ctx context.Context) (PayloadCollection, error)
}

// PayloadCollection is the outcome of a collection.
type PayloadCollection struct {
	Examined uint64 // objects that were old enough
	Removed  uint64 // of them, those that nothing referred to
	Bytes    uint64 // of those that were removed
}

// Bounds on stored payloads.
const (
	DefaultStoredPayload = 64 << 20 // bytes of one; a node may be configured otherwise
	MaxStoredPayload     = 1 << 30  // bytes of one, whatever the configuration
)

// On returns the reference with the day of an instant.
func (r PayloadRef) On(t time.Time) PayloadRef {
	const day = 24 * 60 * 60
	r.Day = int32(t.Unix() / day)
	return r
}

// DayText returns the day as a date, such as 2026-11-28.
func (r PayloadRef) DayText() string {
	return time.Unix(0, 0).UTC().AddDate(0, 0, int(r.Day)).Format(time.DateOnly)
}

// String returns the reference as the API writes it: DAY/SHA256/SIZE.
func (r PayloadRef) String() string {
	return r.DayText() + "/" + hex.EncodeToString(r.SHA256[:]) + "/" + strconv.FormatInt(r.Size, 10)
}

// ParsePayloadRef parses what String returns. An error is about the field payload.
func ParsePayloadRef(s string) (PayloadRef, error) {
	day, rest, _ := strings.Cut(s, "/")
	sum, size, _ := strings.Cut(rest, "/")
	var r PayloadRef
	at, err := time.Parse(time.DateOnly, day)
	n, badSize := strconv.ParseInt(size, 10, 64)
	raw, badSum := hex.DecodeString(sum)
	if err != nil || badSize != nil || badSum != nil || len(raw) != len(r.SHA256) {
		return r, invalid("payload", "%q is not a reference: write DAY/SHA256/SIZE, as a put of a payload returns it",
			clip(s))
	}
	r = PayloadRef{SHA256: [sha256.Size]byte(raw), Size: n}.On(at)
	if r.String() != s {
		return r, invalid("payload", "%q is not a reference as a put of a payload returns it", clip(s))
	}
	err = r.check()
	return r, err
}

// check returns an error for a reference that nothing can have.
func (r *PayloadRef) check() error {
	const lastDay = 2932896 // 9999-12-31
	switch {
	case r.Size < 1 || r.Size > MaxStoredPayload:
		return invalid("payload", "its size is %d bytes; it must be from 1 to %d", r.Size, MaxStoredPayload)
	case r.Day < 0 || r.Day > lastDay:
		return invalid("payload", "its day is %d days after 1970-01-01; it must be from 0 to %d", r.Day, lastDay)
	}
	return nil
}

// Same reports whether two references name the same bytes, on whatever days these were stored.
func (r *PayloadRef) Same(o *PayloadRef) bool {
	return r != nil && o != nil && r.SHA256 == o.SHA256 && r.Size == o.Size
}

// Len returns the size of the payload in bytes, wherever it is.
func (d *Data) Len() int64 {
	if d.Ref != nil {
		return d.Ref.Size
	}
	return int64(len(d.Bytes))
}

// checkRef checks payload.
func (j *Job) checkRef() error {
	switch {
	case j.Data.Ref == nil:
		return nil
	case len(j.Data.Bytes) > 0:
		return invalid("payload", "it cannot be given together with data: leave one of them out")
	case j.Target.Dapr != nil:
		return invalid("payload", "jobs of Dapr keep their data with them: give data, at most --max-payload bytes")
	}
	return j.Data.Ref.check()
}
