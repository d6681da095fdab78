package payload

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/store/object/bucket"
)

// sized is a bucket that knows sizes, and refuses to list.
type sized struct{ bucket.Bucket }

var errListed = errors.New("it was listed")

func (sized) Size(context.Context, string) (int64, error) { return 7, nil }

func (sized) List(context.Context, string, string, int) (bucket.Page, error) {
	return bucket.Page{}, errListed
}

// TestASizeIsNotListed where the place knows it otherwise: a list may read far more.
func TestASizeIsNotListed(t *testing.T) {
	b := inBucket{Bucket: sized{}}
	if size, err := b.Size(t.Context(), "x"); err != nil || size != 7 {
		t.Errorf("%d, %v", size, err)
	}
}

// unsettled is a place in which an object is seen that is not durable.
type unsettled struct{ *folder }

var errUnsettled = errors.New("it is on one server only")

func (unsettled) Settle(context.Context, string) error { return errUnsettled }

func (u unsettled) CreateFrom(ctx context.Context, name string, r io.ReadSeeker, size int64) error {
	if _, err := u.Size(ctx, name); err == nil {
		return bucket.ErrExists
	}
	return u.folder.CreateFrom(ctx, name, r, size)
}

// TestWhatIsSeenIsNotYetStored: neither a put nor a reference counts on an object that is not durable.
func TestWhatIsSeenIsNotYetStored(t *testing.T) {
	s, err := Open(t.Context(), Options{URL: "file:" + t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := s.PutBytes(t.Context(), "ns", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	s.objects = unsettled{s.objects.(*folder)}
	if err := s.createOnce(t.Context(), "ns", strings.NewReader("x"), 1, ref); !errors.Is(err, errUnsettled) {
		t.Errorf("put again: %v", err)
	}
	if _, err := s.Ensure(t.Context(), "ns", ref); !errors.Is(err, errUnsettled) {
		t.Errorf("named by a job: %v", err)
	}
}
