package payload

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"github.com/carillonhq/carillon"
)

// verified is the content of an object. It fails before it returns the last bytes if they, with those before
// them, are not what was stored: whoever has read all of it has the right bytes.
type verified struct {
	from io.ReadCloser
	ref  carillon.PayloadRef
	sum  hash.Hash
	left int64
	err  error // of the object; sticky
}

func verify(from io.ReadCloser, ref carillon.PayloadRef) *verified {
	return &verified{from: from, ref: ref, sum: sha256.New(), left: ref.Size}
}

// Read implements [io.Reader].
func (v *verified) Read(p []byte) (n int, err error) {
	switch {
	case v.err != nil:
		return 0, v.err
	case v.left == 0:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	case int64(len(p)) < v.left:
		n, err = v.some(p)
	default:
		n, err = v.last(p[:v.left])
	}
	v.left -= int64(n)
	v.err = err
	return n, err
}

// some reads bytes that are not the last ones.
func (v *verified) some(p []byte) (int, error) {
	n, err := v.from.Read(p)
	v.sum.Write(p[:n])
	if atEnd(err) {
		err = v.tooShort(n)
	}
	return n, err
}

// last reads what is left, and returns it only if all is right.
func (v *verified) last(p []byte) (int, error) {
	for n := 0; n < len(p); {
		more, err := v.from.Read(p[n:])
		if n += more; err != nil && n < len(p) {
			if atEnd(err) {
				err = v.tooShort(n)
			}
			return 0, err
		}
	}
	v.sum.Write(p)
	if got := v.sum.Sum(nil); !bytes.Equal(got, v.ref.SHA256[:]) {
		return 0, v.damaged("the SHA-256 of what is there is %x", got)
	}
	return len(p), nil
}

// tooShort is the error of an object that ends n bytes after the last read.
func (v *verified) tooShort(n int) error {
	return v.damaged("it ends %d bytes too early", v.left-int64(n))
}

func (v *verified) damaged(format string, args ...any) error {
	return damaged(v.ref, format, args...)
}

// damaged is the error of an object that does not hold what it was made with.
func damaged(ref carillon.PayloadRef, format string, args ...any) error {
	return carillon.Errorf(carillon.DataLoss, "payload", "the payload %s is damaged: %s", ref,
		fmt.Sprintf(format, args...))
}

// Close implements [io.Closer].
func (v *verified) Close() error { return v.from.Close() }

// atEnd reports whether an error of a reader is its end. An error that wraps [io.EOF] is none: a connection
// to a bucket that broke off has such errors.
func atEnd(err error) bool {
	return err == io.EOF //nolint:errorlint // see above
}
