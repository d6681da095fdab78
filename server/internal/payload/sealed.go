package payload

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/keyset"
)

// Encryption encrypts objects as they are stored. server/internal/keyset has one, and the size of what it
// encrypts ([keyset.StreamSize]), which a node without keys needs, too.
type Encryption interface {
	// EncryptStream returns what encrypts into w until it is closed.
	EncryptStream(w io.Writer, bound []byte) (io.WriteCloser, error)
	// DecryptStream returns what r had before. An error, also of its reader, that is not one of r means that the
	// key is not there, does not fit, or that what r has was changed. If the key is not there, the error has a
	// method Missing that returns true: it may come.
	DecryptStream(r io.Reader, bound []byte) (io.Reader, error)
}

// inMemory is how many bytes are encrypted in memory; more are on the disk of this machine meanwhile.
const inMemory = 1 << 20

// boundTo is what the content of an object is bound to: the namespace, and the content itself. The same
// payload of several jobs is one object, so it is not bound to one of them; their specs are.
func boundTo(namespace string, ref carillon.PayloadRef) []byte {
	return fmt.Appendf(nil, "carillon payload\x00%s\x00%s", namespace, hex.EncodeToString(ref.SHA256[:]))
}

// fits reports whether an object of a size may have the content of a reference, encrypted or, if it was
// stored before there were keys, as it is. A node without keys takes one that is encrypted for what it is,
// too, not for a damaged one.
func fits(size int64, ref carillon.PayloadRef) bool {
	return size == ref.Size || sealed(size, ref)
}

func sealed(size int64, ref carillon.PayloadRef) bool { return size == keyset.StreamSize(ref.Size) }

// reads is what decrypts; without keys it tells which one is missing.
func (s *Store) reads() Encryption {
	if s.o.Encryption == nil {
		return keyset.None()
	}
	return s.o.Encryption
}

// prepared returns what is to be written of the content that r has, and its size. done is called afterwards.
func (s *Store) prepared(namespace string, ref carillon.PayloadRef,
	r io.ReadSeeker) (in io.ReadSeeker, size int64, done func(), err error) {
	keys := s.o.Encryption
	if keys == nil {
		return r, ref.Size, func() {}, nil
	}
	size = keyset.StreamSize(ref.Size)
	if ref.Size <= inMemory {
		b := bytes.NewBuffer(make([]byte, 0, size))
		err = encrypt(keys, b, r, boundTo(namespace, ref))
		return bytes.NewReader(b.Bytes()), size, func() {}, err
	}
	file, err := spool()
	if err != nil {
		return nil, 0, nil, fmt.Errorf("there is no place for it on the node's disk: %w", err)
	}
	if err := encrypt(keys, file, r, boundTo(namespace, ref)); err != nil {
		return nil, 0, nil, errors.Join(err, file.Close())
	}
	return file, size, func() { _ = file.Close() }, nil // it has no name: nothing is lost
}

func encrypt(keys Encryption, w io.Writer, r io.ReadSeeker, bound []byte) error {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	out, err := keys.EncryptStream(w, bound)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, r)
	return errors.Join(err, out.Close())
}

// open opens an object, decrypted. size is then that of its content, otherwise what it has.
func (s *Store) open(ctx context.Context, namespace string,
	ref carillon.PayloadRef) (r io.ReadCloser, size int64, err error) {
	from, size, err := s.objects.Open(ctx, s.name(namespace, ref))
	if err != nil || !sealed(size, ref) {
		return from, size, err
	}
	return &opening{from: &source{from: from}, close: from, keys: s.reads(), ref: ref,
		bound: boundTo(namespace, ref)}, ref.Size, nil
}

// opening decrypts an object from its first read on, which may wait for the bucket.
type opening struct {
	from  *source
	close io.Closer
	keys  Encryption
	ref   carillon.PayloadRef
	bound []byte
	plain io.Reader
	err   error
}

// Read implements [io.Reader].
func (o *opening) Read(p []byte) (n int, err error) {
	if o.err != nil {
		return 0, o.err
	}
	if o.plain == nil {
		o.plain, err = o.keys.DecryptStream(o.from, o.bound)
	}
	if err == nil {
		n, err = o.plain.Read(p)
	}
	if err != nil && !atEnd(err) || o.plain == nil {
		o.err = o.why(err)
		return n, o.err
	}
	return n, err
}

// why tells an object that does not answer, or whose key is missing here, from one that is damaged.
func (o *opening) why(err error) error {
	var missing interface{ Missing() bool }
	switch {
	case o.from.err != nil:
		return o.from.err
	case errors.As(err, &missing) && missing.Missing():
		return err
	}
	return damaged(o.ref, "%v", err)
}

// Close implements [io.Closer].
func (o *opening) Close() error { return o.close.Close() }
